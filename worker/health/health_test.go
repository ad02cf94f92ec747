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

// call makes one call through the interceptor that ends with err.
func call(h *Health, method string, err error) {
	_ = h.Interceptor()(context.Background(), "/temporal.api.workflowservice.v1.WorkflowService/"+method, nil, nil, nil,
		func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return err })
}

// waits lets a poll wait since some time ago; it never ends.
func waits(h *Health, method string, ago time.Duration) {
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
		ask     Ping
		prepare func(h *Health)
		// want is what the checks say that are not well; none: ready.
		want []string
	}{
		"at its start": {prepare: func(*Health) {}, want: []string{"temporal: not connected yet", "workflow tasks: not polled yet", "activity tasks: not polled yet"}},
		"polls that ended well": {ask: func(context.Context) error { return nil },
			prepare: func(h *Health) { both(h, nil) }},
		"polls that wait": {ask: func(context.Context) error { return nil },
			prepare: func(h *Health) {
				both(h, status.Error(codes.Unavailable, "restarting")) // before
				waits(h, "PollWorkflowTaskQueue", time.Minute)
				waits(h, "PollActivityTaskQueue", time.Minute)
			}},
		"a poll that has just begun says nothing": {ask: func(context.Context) error { return nil },
			prepare: func(h *Health) {
				both(h, nil)
				call(h, "PollActivityTaskQueue", refused)
				waits(h, "PollActivityTaskQueue", 0)
			}, want: []string{"activity tasks: polling failed: rpc error: code = PermissionDenied desc = the key was revoked"}},
		"polls that the worker gave up": {ask: func(context.Context) error { return nil },
			prepare: func(h *Health) {
				both(h, nil)
				both(h, status.Error(codes.Canceled, "stopping"))
			}},
		"other calls do not count": {ask: func(context.Context) error { return nil },
			prepare: func(h *Health) { call(h, "PollNexusTaskQueue", nil); call(h, "GetSystemInfo", nil) },
			want:    []string{"workflow tasks: not polled yet", "activity tasks: not polled yet"}},
		"no Temporal": {ask: func(context.Context) error { return errors.New("connection refused") },
			prepare: func(h *Health) { both(h, nil) }, want: []string{"temporal: no response: connection refused"}},
		"a worker that stops": {ask: func(context.Context) error { return nil },
			prepare: func(h *Health) { both(h, nil); h.Stopping("it stops") }, want: []string{"running: it stops"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := &Health{}
			if tc.ask != nil {
				h.Connected(tc.ask)
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
				t.Errorf("report is %+v, want %q", r, tc.want)
			}
			resp, err := http.Get(srv.URL + PathReady)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if (resp.StatusCode == http.StatusOK) != r.OK {
				t.Errorf("status is %s", resp.Status)
			}
			if live, err := Query(t.Context(), strings.TrimPrefix(srv.URL, "http://"), PathLive); err != nil || !live.OK {
				t.Errorf("alive: %+v, %v", live, err)
			}
		})
	}
}

func TestTemporalIsNotAskedAllTheTime(t *testing.T) {
	asked := 0
	h := &Health{}
	h.Connected(func(ctx context.Context) error {
		asked++
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the question has no end")
		}
		return nil
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel() // who asked is gone; the others want an answer
	for range 10 {
		if r := h.Ready(ended); !r.Checks[1].OK {
			t.Errorf("report is %+v", r)
		}
	}
	if asked != 1 {
		t.Errorf("Temporal was asked %d times within a second, want once", asked)
	}
}

func TestQueryOfWhatIsNoWorker(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	address := strings.TrimPrefix(srv.URL, "http://")
	if _, err := Query(t.Context(), address, PathReady); err == nil || !strings.Contains(err.Error(), "404 Not Found, which is not a worker's report") {
		t.Errorf("error is %v", err)
	}
	srv.Close()
	if _, err := Query(t.Context(), address[strings.Index(address, ":"):], PathReady); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error is %v", err)
	}
	if _, err := Query(t.Context(), "nowhere", PathReady); err == nil || !strings.Contains(err.Error(), `"nowhere" is not host:port`) {
		t.Errorf("error is %v", err)
	}
}
