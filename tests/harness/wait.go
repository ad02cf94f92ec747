package harness

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"weft/activities/contract"
	"weft/worker/store"
)

// WaitFor polls until something holds.
func WaitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 15_000 {
		if ok() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("waited five minutes for %s", what)
}

// Dial connects to a server until the test ends.
func Dial(t testing.TB, address string) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: address, Logger: NoLog, ConnectionOptions: client.ConnectionOptions{
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(store.RepeatQueries)}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Result waits for a run's result.
func Result(t testing.TB, run client.WorkflowRun) (*contract.RunResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // machines are busy
	defer cancel()
	var out contract.RunResult
	if err := run.Get(ctx, &out); err != nil {
		return nil, err
	}
	return &out, nil
}
