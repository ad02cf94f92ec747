package llm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/activities/contract"
)

// modelState is the state of a model on a local server, which loads it on first use. It is queried around a call, and never
// fails one: the zero value means unknown.
type modelState struct {
	// loading is set if the model is not in memory yet, so that a call waits for it.
	loading bool
	// context is the context size in tokens, including the answer; 0 if unknown.
	context int
}

const (
	// stateTimeout is the timeout of a query for a model's state, stateTTL how long its result is cached.
	stateTimeout = 2 * time.Second
	stateTTL     = time.Minute
	// minLoadPause and maxLoadPause bound the pause between requests to a server that is loading a model.
	minLoadPause = 100 * time.Millisecond
	maxLoadPause = 5 * time.Second
)

type cachedState struct {
	modelState
	at time.Time
}

// state returns the state of the model, cached unless the server is loading it.
func (p *provider) state(ctx context.Context) modelState {
	if p.row.queryState == nil || p.stateCache == nil {
		return modelState{}
	}
	last, _ := p.stateCache.Load(p.Name)
	cached, _ := last.(cachedState)
	if time.Since(cached.at) < stateTTL && !cached.loading {
		return cached.modelState
	}
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	s := p.row.queryState(ctx, p)
	p.stateCache.Store(p.Name, cachedState{s, time.Now()})
	return s
}

// retryWhileLoading retries a request until the server has loaded the model: llama.cpp rejects requests until then.
func (x *exchange) retryWhileLoading(request func() error) error {
	start := time.Now()
	for pause := minLoadPause; ; pause = min(2*pause, maxLoadPause) {
		x.partial, x.modelLoading = false, false
		err := request()
		if !x.modelLoading || time.Since(start) > x.firstByte {
			return err
		}
		x.reportLoading()
		if err := sleep(x.ctx, pause); err != nil {
			return x.toFailure(x.ctx, err)
		}
	}
}

// reportLoading reports once that the call waits for the model to be loaded.
func (x *exchange) reportLoading() {
	if x.call.Loading != nil && !x.loadingReported {
		x.call.Loading(fmt.Sprintf("waiting for provider %s to load the model %s", x.Provider, x.Name))
		x.loadingReported = true
	}
}

// reportLoaded reports that the call no longer waits for the model.
func (x *exchange) reportLoaded() {
	if x.loadingReported {
		x.call.Loading("")
		x.loadingReported = false
	}
}

// loadingTexts are texts, in lower case, of errors of servers that are loading a model.
var loadingTexts = []string{"loading model", "model is loading", "currently loading"}

// modelLoading reports whether the server rejected a request because it is loading the model.
func (r *report) modelLoading() bool {
	return r.status == http.StatusServiceUnavailable && containsAny(strings.ToLower(r.message), loadingTexts)
}

// fetch requests JSON from the server; path is relative to its root. It returns the HTTP status, or 0 on any error.
func (p *provider) fetch(ctx context.Context, method, path string, body []byte, into any) int {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(p.Base, "/v1")+path, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	maps.Copy(req.Header, p.headers)
	if p.key != "" {
		req.Header.Set("Authorization", "Bearer "+p.key)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	if json.NewDecoder(io.LimitReader(resp.Body, 4<<20)).Decode(into) != nil && resp.StatusCode == http.StatusOK {
		return 0
	}
	return resp.StatusCode
}

func queryLlamaCpp(ctx context.Context, p *provider) modelState {
	var props struct {
		Error   errorObject `json:"error"`
		Default struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	status := p.fetch(ctx, http.MethodGet, "/props?autoload=false&model="+url.QueryEscape(p.Name), nil, &props)
	r := report{status: status, message: string(props.Error.Message)}
	return modelState{loading: r.modelLoading(), context: props.Default.Context}
}

// queryModelList finds a model in the server's list. vLLM responds once its model is loaded; LM Studio lists a state.
func queryModelList(path string) func(context.Context, *provider) modelState {
	return func(ctx context.Context, p *provider) modelState {
		var list struct {
			Data []struct {
				ID      string `json:"id"`
				Context int    `json:"max_model_len"`
				// State, Loaded and Max are LM Studio's.
				State  string `json:"state"`
				Loaded int    `json:"loaded_context_length"`
				Max    int    `json:"max_context_length"`
			} `json:"data"`
		}
		p.fetch(ctx, http.MethodGet, path, nil, &list)
		for _, m := range list.Data {
			switch {
			case m.ID != p.Name:
			case m.State == "loaded":
				return modelState{context: cmp.Or(m.Loaded, m.Max)}
			default:
				return modelState{loading: m.State != "", context: m.Context}
			}
		}
		return modelState{}
	}
}

// ollamaNumCtx matches the context size in the parameters of a model.
var ollamaNumCtx = regexp.MustCompile(`(?m)^num_ctx\s+(\d+)\s*$`)

// queryOllama finds a model among those that Ollama has loaded, with the context size that the server chose.
func queryOllama(ctx context.Context, p *provider) modelState {
	var running struct {
		Models *[]struct {
			Name    string `json:"name"`
			Model   string `json:"model"`
			Context int    `json:"context_length"`
		} `json:"models"`
	}
	if p.fetch(ctx, http.MethodGet, "/api/ps", nil, &running) != http.StatusOK || running.Models == nil {
		return modelState{}
	}
	for _, m := range *running.Models {
		if slices.Contains([]string{p.Name, p.Name + ":latest"}, cmp.Or(m.Model, m.Name)) {
			return modelState{context: cmp.Or(m.Context, p.ollamaContext(ctx))}
		}
	}
	return modelState{loading: true}
}

// ollamaContext returns the context size that a model's parameters set, or the model's maximum, for servers that do not
// report the size that it was loaded with.
func (p *provider) ollamaContext(ctx context.Context) int {
	var shown struct {
		Parameters string         `json:"parameters"`
		Info       map[string]any `json:"model_info"`
	}
	body, _ := json.Marshal(map[string]string{"model": p.Name}) // a map of strings always encodes
	p.fetch(ctx, http.MethodPost, "/api/show", body, &shown)
	if set := ollamaNumCtx.FindStringSubmatch(shown.Parameters); set != nil {
		n, _ := strconv.Atoi(set[1])
		return n
	}
	family, _ := shown.Info["general.architecture"].(string)
	n, _ := shown.Info[family+".context_length"].(float64)
	return int(n)
}

const ollamaTimeout = 5 * time.Second

// OllamaModels lists the models of an Ollama server, except embedding models. An empty baseURL means the local server. It
// fails with class unavailable if the server cannot be reached.
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
		return nil, failf(contract.ClassUnavailable, "start it with: ollama serve; or set OLLAMA_HOST", "list Ollama models at %s: %v", root, err)
	}
	return names, nil
}

func ollamaTags(ctx context.Context, address string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, ollamaTimeout)
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
		return nil, fmt.Errorf("server returned %s", statusText(resp.StatusCode))
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
		return nil, fmt.Errorf("read response: %w", err)
	}
	var names []string
	for _, m := range tags.Models {
		if m.Name != "" && !strings.Contains(m.Details.Family, "bert") {
			names = append(names, m.Name)
		}
	}
	return names, nil
}
