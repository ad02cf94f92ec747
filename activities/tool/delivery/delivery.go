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

// Delivery records whether the request of a call has reached its server, as far as a client can know. Only what
// changes something is tracked: the call itself, not a listing, and not a session's start.
type Delivery struct{ sent atomic.Bool }

type deliveryKey struct{}

// Tracked returns a context whose next requests are those of a call.
func Tracked(ctx context.Context) (context.Context, *Delivery) {
	d := &Delivery{}
	return context.WithValue(ctx, deliveryKey{}, d), d
}

// Untracked returns a context whose requests have no effect.
func Untracked(ctx context.Context) context.Context {
	return context.WithValue(ctx, deliveryKey{}, (*Delivery)(nil))
}

// MarkSent records that the server may have the request, or that it certainly does not act on it.
func MarkSent(ctx context.Context, sent bool) {
	if d, _ := ctx.Value(deliveryKey{}).(*Delivery); d != nil {
		d.sent.Store(sent)
	}
}

// MaySent reports whether the server may have the request of a call that failed.
func MaySent(ctx context.Context, err error) bool {
	var f *contract.Failure
	d, _ := ctx.Value(deliveryKey{}).(*Delivery)
	return d != nil && errors.As(d.Judge(err), &f) && f.OutcomeUnknown
}

// Traced returns a request that is marked as sent once its headers are written: a part of them has no effect.
func Traced(req *http.Request) *http.Request {
	ctx := req.Context()
	return req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { MarkSent(ctx, true) }}))
}

// Declined reports whether a server says that it did not act on a request. A resumed stream is of an earlier one.
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

// Judge sets the outcome of a call that failed: it is unknown where the server may have the request and has not answered.
func (d *Delivery) Judge(err error) error {
	var f *contract.Failure
	if !errors.As(err, &f) || !d.sent.Load() || !contract.Retryable(f.Class) {
		return err
	}
	own := *f
	own.OutcomeUnknown = true
	return &own
}
