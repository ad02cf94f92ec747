// Command elsewhere is a worker without Weft's code: two activities on their own task queue.
// The weft.yml next to it configures them as tools, which stock.json binds by their names.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"sync"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
)

func main() {
	queue := flag.String("task-queue", "stock", "where it polls")
	flag.Parse()
	c, err := client.Dial(client.Options{HostPort: os.Getenv("TEMPORAL_ADDRESS"), Namespace: os.Getenv("TEMPORAL_NAMESPACE")})
	if err != nil {
		log.Fatalln("no Temporal:", err)
	}
	defer c.Close()
	w := worker.New(c, *queue, worker.Options{})
	w.RegisterActivityWithOptions(count, activity.RegisterOptions{Name: "CountStock"})
	w.RegisterActivity(&shelf{tried: map[string]bool{}})
	if err := w.Run(worker.InterruptCh()); err != nil {
		log.Fatalln(err)
	}
}

// Item is the input of the tools.
type Item struct {
	Name string `json:"item"`
	N    int    `json:"n,omitempty"`
}

// Stock is given to the model as JSON.
type Stock struct {
	Item   string `json:"item"`
	Pieces int    `json:"pieces"`
}

func count(_ context.Context, in Item) (Stock, error) {
	if in.Name != "apples" {
		// The model gets the message at once: another attempt would not help.
		return Stock{}, temporal.NewNonRetryableApplicationError(fmt.Sprintf("there are no %q, only apples", in.Name), "NoSuchItem", nil)
	}
	return Stock{in.Name, 12}, nil
}

// Key is the second argument if weft.yml sets idempotency_key: true.
type Key struct {
	Value string `json:"idempotency_key"`
}

// shelf holds reservations. The first attempt of every call fails.
type shelf struct {
	mu    sync.Mutex
	tried map[string]bool
}

// Reserve reserves pieces of an item for a customer.
func (s *shelf) Reserve(_ context.Context, in Item, key Key) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tried[key.Value] {
		s.tried[key.Value] = true
		return "", fmt.Errorf("the shelf is busy")
	}
	return fmt.Sprintf("reserved %d %s, reference %s", in.N, in.Name, key.Value), nil
}
