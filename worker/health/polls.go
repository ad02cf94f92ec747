package health

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// polled are the long polls for tasks, by the last part of their method.
var polled = []struct{ method, name string }{
	{"PollWorkflowTaskQueue", "workflow tasks"},
	{"PollActivityTaskQueue", "activity tasks"},
}

// accepted is how long a poll must wait to count as accepted: the server rejects one sooner.
const accepted = time.Second

// polls tracks the long polls for tasks.
type polls struct {
	mu   sync.Mutex
	last int
	// waiting holds the start of each open poll, by method and number.
	waiting map[string]map[int]time.Time
	// ended is the result of the last completed poll of each method.
	ended map[string]error
}

// begin records the start of a poll; the returned function records its end.
func (p *polls) begin(method string) func(error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting, p.ended = map[string]map[int]time.Time{}, map[string]error{}
	}
	if p.waiting[method] == nil {
		p.waiting[method] = map[int]time.Time{}
	}
	p.last++
	n := p.last
	p.waiting[method][n] = time.Now()
	return func(err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting[method], n)
		// A poll that the worker itself cancelled says nothing about the server.
		if status.Code(err) != codes.Canceled && !errors.Is(err, context.Canceled) {
			p.ended[method] = err
		}
	}
}

// checks reports for each kind of task whether it is polled: a poll is open and was not rejected, or
// the last completed one succeeded. Only the latter holds while every slot is in use.
func (p *polls) checks(now time.Time) []Check {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Check
	for _, kind := range polled {
		c := Check{Name: kind.name}
		err, ended := p.ended[kind.method]
		c.OK = ended && err == nil
		for _, since := range p.waiting[kind.method] {
			c.OK = c.OK || now.Sub(since) >= accepted
		}
		switch {
		case c.OK:
		case err != nil:
			c.Text = fmt.Sprintf("polling failed: %v", err)
		default:
			c.Text = "not polled yet"
		}
		out = append(out, c)
	}
	return out
}

// Interceptor observes a client's polls. It belongs into the client's connection options.
func (h *Health) Interceptor() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		name := path.Base(method)
		for _, kind := range polled {
			if kind.method == name {
				end := h.polls.begin(name)
				err := invoke(ctx, method, req, reply, cc, opts...)
				end(err)
				return err
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}
