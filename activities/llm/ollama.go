package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"weft/activities/contract"
)

const ollamaWait = 5 * time.Second

// OllamaModels lists the models of an Ollama server without those for embeddings. An empty baseURL is the
// local server. It fails as unavailable if no server answers.
func OllamaModels(ctx context.Context, baseURL string) ([]string, error) {
	row, _ := rowOf("ollama")
	var o opener
	base := o.baseURL("ollama", cmp.Or(baseURL, row.BaseURL), true)
	if len(o.problems) > 0 {
		return nil, failf(contract.ClassConnection, "", "%s", strings.Join(o.problems, "; "))
	}
	root := strings.TrimSuffix(base, "/v1")
	names, err := ollamaTags(ctx, root+"/api/tags")
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, failf(contract.ClassUnavailable, "start it with: ollama serve; or set OLLAMA_HOST", "list the models of Ollama at %s: %v", root, err)
	}
	return names, nil
}

func ollamaTags(ctx context.Context, address string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, ollamaWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	client := newClient(nil)
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered %s", statusText(resp.StatusCode))
	}
	var tags struct {
		Models []struct {
			Name    string `json:"name"`
			Details struct {
				Family string `json:"family"`
			} `json:"details"`
		} `json:"models"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&tags); err != nil {
		return nil, fmt.Errorf("read its answer: %w", err)
	}
	var names []string
	for _, m := range tags.Models {
		if m.Name != "" && !strings.Contains(m.Details.Family, "bert") {
			names = append(names, m.Name)
		}
	}
	return names, nil
}
