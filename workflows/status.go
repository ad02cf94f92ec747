package workflows

import "weft/activities/contract"

// fitting is a status as the answer of a query holds it. Of what has no room the oldest conflicts and
// executions are left out, then what can be read elsewhere, last the requests behind the first.
func fitting(s contract.Status) contract.Status {
	for n, err := size(s); err == nil && n > maxPayload; n, err = size(s) {
		switch {
		case len(s.Conflicts) > 0:
			s.Conflicts = s.Conflicts[(len(s.Conflicts)+1)/2:]
		case len(s.Executions) > 0:
			half := (len(s.Executions) + 1) / 2
			s.Executions, s.Dropped = s.Executions[half:], s.Dropped+half
		case len(s.Waits)+len(s.Inbox) > 0:
			s.Waits, s.Inbox = nil, nil
		case len(s.Requests) > 1:
			half := len(s.Requests) / 2
			s.MoreRequests += len(s.Requests) - half
			s.Requests = s.Requests[:half]
		default:
			return s
		}
	}
	return s
}
