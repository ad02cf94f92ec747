package health

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// call makes one call through the interceptor, which fails with err if it is not nil.
func call(h *Health, method string, err error) {
	_ = h.Interceptor()(context.Background(), "/temporal.api.workflowservice.v1.WorkflowService/"+method, nil, nil, nil,
		func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return err })
}

// startPoll adds a poll that has been waiting for some time and never ends.
func startPoll(h *Health, method string, ago time.Duration) {
	h.polls.begin(method)
	h.polls.waiting[method][h.polls.last] = time.Now().Add(-ago)
}

func TestReady(t *testing.T) {
	refused := status.Error(codes.PermissionDenied, "the key was revoked")
	both := func(h *Health, err error) {
		call(h, "PollWorkflowTaskQueue", err)
		call(h, "PollActivityTaskQueue", err)
	}
	tests := map[string]struct {
		ping    Ping
		prepare func(h *Health)
		// want lists the failed checks; the worker is ready if there are none.
		want []string
	}{
		"at start": {prepare: func(*Health) {}, want: []string{"temporal: not connected yet", "workflow tasks: not polled yet", "activity tasks: not polled yet"}},
		"completed polls": {ping: func(context.Context) error { return nil },
			prepare: func(h *Health) { both(h, nil) }},
		"waiting polls": {ping: func(context.Context) error { return nil },
			prepare: func(h *Health) {
				both(h, status.Error(codes.Unavailable, "restarting")) // earlier
				startPoll(h, "PollWorkflowTaskQueue", time.Minute)
				startPoll(h, "PollActivityTaskQueue", time.Minute)
			}},
		"a new poll does not hide a failed one": {ping: func(context.Context) error { return nil },
			prepare: func(h *Health) {
				both(h, nil)
				call(h, "PollActivityTaskQueue", refused)
				startPoll(h, "PollActivityTaskQueue", 0)
			}, want: []string{"activity tasks: polling failed: rpc error: code = PermissionDenied desc = the key was revoked"}},
		"polls canceled by the worker": {ping: func(context.Context) error { return nil },
			prepare: func(h *Health) {
				both(h, nil)
				both(h, status.Error(codes.Canceled, "stopping"))
			}},
		"other calls are ignored": {ping: func(context.Context) error { return nil },
			prepare: func(h *Health) { call(h, "PollNexusTaskQueue", nil); call(h, "GetSystemInfo", nil) },
			want:    []string{"workflow tasks: not polled yet", "activity tasks: not polled yet"}},
		"no Temporal": {ping: func(context.Context) error { return errors.New("connection refused") },
			prepare: func(h *Health) { both(h, nil) }, want: []string{"temporal: no response: connection refused"}},
		"stopping": {ping: func(context.Context) error { return nil },
			prepare: func(h *Health) { both(h, nil); h.Stopping("it stops") }, want: []string{"running: it stops"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := &Health{}
			if tc.ping != nil {
				h.Connected(tc.ping)
			}
			tc.prepare(h)
			mux := http.NewServeMux()
			h.Handle(mux)
			srv := httptest.NewServer(mux)
			defer srv.Close()
			r, err := Query(t.Context(), strings.TrimPrefix(srv.URL, "http://"), PathReady)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range r.Checks {
				if !c.OK {
					got = append(got, c.Name+": "+c.Text)
				}
			}
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") || r.OK != (len(tc.want) == 0) || len(r.Checks) != 4 || r.Version == "" {
				t.Errorf("report = %+v, want %q", r, tc.want)
			}
			resp, err := http.Get(srv.URL + PathReady)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if (resp.StatusCode == http.StatusOK) != r.OK {
				t.Errorf("status = %s", resp.Status)
			}
			if live, err := Query(t.Context(), strings.TrimPrefix(srv.URL, "http://"), PathLive); err != nil || !live.OK {
				t.Errorf("live report = %+v, %v", live, err)
			}
		})
	}
}

func TestPingIsCached(t *testing.T) {
	pings := 0
	h := &Health{}
	h.Connected(func(ctx context.Context) error {
		pings++
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the ping has no deadline")
		}
		return nil
	})
	canceled, cancel := context.WithCancel(t.Context())
	cancel() // the first caller is gone; others need the result
	for range 10 {
		if r := h.Ready(canceled); !r.Checks[1].OK {
			t.Errorf("report = %+v", r)
		}
	}
	if pings != 1 {
		t.Errorf("%d pings within a second, want 1", pings)
	}
}

func TestQueryErrors(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	address := strings.TrimPrefix(srv.URL, "http://")
	if _, err := Query(t.Context(), address, PathReady); err == nil || !strings.Contains(err.Error(), "404 Not Found, which is not a worker's report") {
		t.Errorf("error = %v", err)
	}
	srv.Close()
	if _, err := Query(t.Context(), address[strings.Index(address, ":"):], PathReady); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error = %v", err)
	}
	if _, err := Query(t.Context(), "nowhere", PathReady); err == nil || !strings.Contains(err.Error(), `"nowhere" is not host:port`) {
		t.Errorf("error = %v", err)
	}
}
