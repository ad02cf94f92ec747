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

// polled are the calls that wait for tasks, by the last part of their method.
var polled = []struct{ method, name string }{
	{"PollWorkflowTaskQueue", "workflow tasks"},
	{"PollActivityTaskQueue", "activity tasks"},
}

// settled is how long a poll must wait to show that the server takes it: what it refuses,
// it refuses sooner.
const settled = time.Second

// polls watch the calls that wait for tasks.
type polls struct {
	mu   sync.Mutex
	last int
	// waiting holds since when each call waits, by method and a number.
	waiting map[string]map[int]time.Time
	// ended is what the latest call of a method that ended came to.
	ended map[string]error
}

// begin notes a poll's begin; the caller calls the function that it returns with its end.
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
		// A call that the worker itself gave up says nothing about the server.
		if status.Code(err) != codes.Canceled && !errors.Is(err, context.Canceled) {
			p.ended[method] = err
		}
	}
}

// checks says of each kind of tasks whether it is polled for: a call waits and was not
// refused, or the latest one that ended brought an answer. The latter is all there is
// while every slot is in use.
func (p *polls) checks(now time.Time) []Check {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Check
	for _, kind := range polled {
		c := Check{Name: kind.name}
		err, ended := p.ended[kind.method]
		c.OK = ended && err == nil
		for _, since := range p.waiting[kind.method] {
			c.OK = c.OK || now.Sub(since) >= settled
		}
		switch {
		case c.OK:
		case err != nil:
			c.Text = fmt.Sprintf("polling fails: %v", err)
		default:
			c.Text = "not polled yet"
		}
		out = append(out, c)
	}
	return out
}

// Interceptor watches a client's polls. It belongs into the options of the client's
// connection.
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
