package prepare

import (
	"weft/activities/contract"
	"weft/workflows/runtime"
)

// MendThread answers tool calls in whose middle a turn or a flow ended: no provider takes a
// conversation without their results.
func MendThread(r *runtime.Run) error {
	t := r.Conversation.Thread
	if t == nil {
		return nil
	}
	answered := map[string]bool{}
	for i := len(t.Entries) - 1; i >= 0; i-- {
		m, err := contract.DecodeMessage(t.Entries[i].Raw)
		if err != nil {
			return err
		}
		if m.Role == contract.RoleTool {
			answered[m.CallID] = true
			continue
		}
		for _, c := range m.Calls {
			if answered[c.ID] {
				continue
			}
			lost := contract.Message{Role: contract.RoleTool, Text: "the flow ended before the call had its result", CallID: c.ID, Name: c.Name, Error: true}
			if _, err := r.Transcript.Write(t, &lost); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}
