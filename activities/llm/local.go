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

// Servers of local models load a model when it is first asked, and say how long a conversation it takes. What they say is asked for
// around a call and never fails one.

// serverState is what a server says of a model. The zero value is what is said where it says nothing.
type serverState struct {
	// loading: the model is not in memory, so that a call waits until it is.
	loading bool
	// context is how many tokens the model takes, the answer included; 0 if unknown.
	context int
}

const (
	// stateWait bounds a question about a model's state, stateKept is how long its answer is taken for true.
	stateWait = 2 * time.Second
	stateKept = time.Minute
	// loadPause and maxLoadPause are the first and the longest pause between two requests to a server that loads a model.
	loadPause    = 100 * time.Millisecond
	maxLoadPause = 5 * time.Second
)

type keptState struct {
	serverState
	at time.Time
}

// state is what the server says of the model. While the model is being loaded, the server is asked each time.
func (p *provider) state(ctx context.Context) serverState {
	if p.row.look == nil || p.states == nil {
		return serverState{}
	}
	last, _ := p.states.Load(p.Name)
	kept, _ := last.(keptState)
	if time.Since(kept.at) < stateKept && !kept.loading {
		return kept.serverState
	}
	ctx, cancel := context.WithTimeout(ctx, stateWait)
	defer cancel()
	s := p.row.look(ctx, p)
	p.states.Store(p.Name, keptState{s, time.Now()})
	return s
}

// awaitLoading makes a request until the server has loaded the model: servers of llama.cpp refuse requests until then.
func (x *exchange) awaitLoading(ask func() error) error {
	began := time.Now()
	for pause := loadPause; ; pause = min(2*pause, maxLoadPause) {
		x.partial, x.unloaded = false, false
		err := ask()
		if !x.unloaded || time.Since(began) > x.first {
			return err
		}
		x.reportLoading()
		if err := sleep(x.ctx, pause); err != nil {
			return x.toFailure(x.ctx, err)
		}
	}
}

// reportLoading says what the call waits for, once.
func (x *exchange) reportLoading() {
	if x.call.Loading != nil && !x.loading {
		x.call.Loading(fmt.Sprintf("waiting for provider %s to load the model %s", x.Provider, x.Name))
		x.loading = true
	}
}

// loaded says that the call no longer waits for its model.
func (x *exchange) loaded() {
	if x.loading {
		x.call.Loading("")
		x.loading = false
	}
}

// loadingTexts are words by which servers refuse a request because they load the model, in lower case.
var loadingTexts = []string{"loading model", "model is loading", "currently loading"}

// loads reports whether the server refuses a request because it still loads the model.
func (r *report) loads() bool {
	return r.status == http.StatusServiceUnavailable && containsAny(strings.ToLower(r.message), loadingTexts)
}

// fetch asks the server for JSON, at a path beside that of the protocol. It gives the status, 0 where there is none.
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

func lookLlamaCpp(ctx context.Context, p *provider) serverState {
	var props struct {
		Error   errorObject `json:"error"`
		Default struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	status := p.fetch(ctx, http.MethodGet, "/props?autoload=false&model="+url.QueryEscape(p.Name), nil, &props)
	r := report{status: status, message: string(props.Error.Message)}
	return serverState{loading: r.loads(), context: props.Default.Context}
}

// lookList asks for a server's list of models: vLLM answers when its model is loaded, LM Studio loads one when it is asked.
func lookList(path string) func(context.Context, *provider) serverState {
	return func(ctx context.Context, p *provider) serverState {
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
				return serverState{context: cmp.Or(m.Loaded, m.Max)}
			default:
				return serverState{loading: m.State != "", context: m.Context}
			}
		}
		return serverState{}
	}
}

// ollamaLength is the context that a model's file sets.
var ollamaLength = regexp.MustCompile(`(?m)^num_ctx\s+(\d+)\s*$`)

// lookOllama asks Ollama, which loads a model when it is asked, with a context of the server's choice.
func lookOllama(ctx context.Context, p *provider) serverState {
	var running struct {
		Models *[]struct {
			Name    string `json:"name"`
			Model   string `json:"model"`
			Context int    `json:"context_length"`
		} `json:"models"`
	}
	if p.fetch(ctx, http.MethodGet, "/api/ps", nil, &running) != http.StatusOK || running.Models == nil {
		return serverState{}
	}
	for _, m := range *running.Models {
		if slices.Contains([]string{p.Name, p.Name + ":latest"}, cmp.Or(m.Model, m.Name)) {
			return serverState{context: cmp.Or(m.Context, p.ollamaSetting(ctx))}
		}
	}
	return serverState{loading: true}
}

// ollamaSetting is the context of a model by its file, or the longest that it takes, for servers that do not say what it was loaded
// with.
func (p *provider) ollamaSetting(ctx context.Context) int {
	var shown struct {
		Parameters string         `json:"parameters"`
		Info       map[string]any `json:"model_info"`
	}
	body, _ := json.Marshal(map[string]string{"model": p.Name}) // a map of strings always encodes
	p.fetch(ctx, http.MethodPost, "/api/show", body, &shown)
	if set := ollamaLength.FindStringSubmatch(shown.Parameters); set != nil {
		n, _ := strconv.Atoi(set[1])
		return n
	}
	family, _ := shown.Info["general.architecture"].(string)
	n, _ := shown.Info[family+".context_length"].(float64)
	return int(n)
}

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
