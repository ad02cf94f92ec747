// Package delivery records whether the request of a call has reached its server.
package delivery

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"weft/activities/contract"
)

// Delivery records whether the request of a call has reached its server, as far as the client knows. Only requests that may
// have effects are tracked: the call itself, but not listing tools or starting a session.
type Delivery struct{ sent atomic.Bool }

type deliveryKey struct{}

// Tracked returns a context whose requests are recorded in the returned Delivery.
func Tracked(ctx context.Context) (context.Context, *Delivery) {
	d := &Delivery{}
	return context.WithValue(ctx, deliveryKey{}, d), d
}

// Untracked returns a context whose requests are not recorded, because they have no effect.
func Untracked(ctx context.Context) context.Context {
	return context.WithValue(ctx, deliveryKey{}, (*Delivery)(nil))
}

// MarkSent records that the server may have received the request or, if sent is false, that it certainly does not act on it.
func MarkSent(ctx context.Context, sent bool) {
	if d, _ := ctx.Value(deliveryKey{}).(*Delivery); d != nil {
		d.sent.Store(sent)
	}
}

// MayHaveBeenSent reports whether the server may have received the request of a call that failed with err.
func MayHaveBeenSent(ctx context.Context, err error) bool {
	var f *contract.Failure
	d, _ := ctx.Value(deliveryKey{}).(*Delivery)
	return d != nil && errors.As(d.MarkOutcome(err), &f) && f.OutcomeUnknown
}

// Trace returns a copy of a request that is marked as sent once its headers are written. Incomplete headers have no effect.
func Trace(req *http.Request) *http.Request {
	ctx := req.Context()
	return req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { MarkSent(ctx, true) }}))
}

// Declined reports whether a response means that the server did not act on the request. One to a resumption never does.
func Declined(req *http.Request, resp *http.Response) bool {
	switch s := resp.StatusCode; {
	case req.Header.Get("Last-Event-ID") != "", s == http.StatusRequestTimeout:
		return false
	case s == http.StatusServiceUnavailable:
		return resp.Header.Get("Retry-After") != ""
	default:
		return s >= 400 && s < 500
	}
}

// MarkOutcome returns err with the outcome marked as unknown if the server may have received the request without responding.
func (d *Delivery) MarkOutcome(err error) error {
	var f *contract.Failure
	if !errors.As(err, &f) || !d.sent.Load() || !contract.Retryable(f.Class) {
		return err
	}
	marked := *f
	marked.OutcomeUnknown = true
	return &marked
}
