package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
)

// The rules by which providers cache prompt prefixes, according to their documentation.
const (
	// byMarks: a marked prefix is cached, and found by a mark at most lookBack blocks after it.
	byMarks = "marks"
	// byLastMark: only the last mark counts, for exactly its prefix.
	byLastMark = "the last mark"
	// byWhole: a mark on the request counts as one after its last block.
	byWhole = "a mark of the whole request"
	// byKey: one of several machines caches every prefix. A key selects the machine; requests without a key go round-robin.
	byKey = "a key"
)

const (
	machines      = 8
	lookBack      = 20
	maxMarks      = 4
	leastCached   = 1024 // tokens
	bytesPerToken = 4
)

// promptCache is a provider that computes how much of each request is cached.
type promptCache struct {
	rule string
	mu   sync.Mutex
	// kept are the hashes of cached prefixes, by machine.
	kept [machines]map[string]bool
	next int
}

// promptBlock is a part of a prompt that can be followed by a mark.
type promptBlock struct {
	text   string
	marked bool
}

func (c *promptCache) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var body map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	key, _ := body["prompt_cache_key"].(string)
	if key == "" {
		key = r.Header.Get("x-grok-conv-id")
	}
	blocks := promptBlocks(body)
	if c.rule == byWhole && body["cache_control"] != nil {
		blocks[len(blocks)-1].marked = true
	}
	all, cached, written, err := c.look(blocks, key)
	if err != nil {
		http.Error(w, fmt.Sprintf(`{"error":{"message":%q}}`, err), http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, cacheAnswer(r.URL.Path, all, cached, written))
}

// look returns how many tokens a prompt has, how many of them are cached, and how many are added to the cache.
func (c *promptCache) look(blocks []promptBlock, key string) (all, cached, written int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.next % machines
	if sum := sha256.Sum256([]byte(key)); key != "" {
		at = int(sum[0]) % machines
	} else if c.rule == byKey {
		c.next++
	}
	if c.kept[at] == nil {
		c.kept[at] = map[string]bool{}
	}
	prefixes, sizes, marks := make([]string, len(blocks)), make([]int, len(blocks)), []int{}
	hash := sha256.New()
	for i, b := range blocks {
		_, _ = io.WriteString(hash, b.text+"\x00")
		all += (len(b.text) + bytesPerToken - 1) / bytesPerToken
		prefixes[i], sizes[i] = hex.EncodeToString(hash.Sum(nil)), all
		if b.marked || c.rule == byKey {
			marks = append(marks, i)
		}
	}
	if len(marks) > maxMarks && c.rule != byKey {
		return 0, 0, 0, fmt.Errorf("a request has at most %d marks, this one has %d", maxMarks, len(marks))
	}
	back := lookBack
	if c.rule == byLastMark {
		marks, back = marks[max(0, len(marks)-1):], 0
	}
	for _, mark := range marks {
		for i := mark; i >= max(0, mark-back); i-- {
			if c.kept[at][prefixes[i]] {
				cached = max(cached, sizes[i])
			}
		}
	}
	for _, mark := range marks {
		if sizes[mark] >= leastCached {
			c.kept[at][prefixes[mark]] = true
			written = max(written, sizes[mark]-cached)
		}
	}
	return all, cached, written, nil
}

// promptBlocks returns a prompt's blocks in the order in which a provider reads them: tools, system prompt, messages.
func promptBlocks(body map[string]any) []promptBlock {
	var out []promptBlock
	add := func(role string, v any) {
		if list, ok := v.([]any); ok {
			for _, one := range list {
				out = addBlock(out, role, one)
			}
		} else if v != nil {
			out = addBlock(out, role, v)
		}
	}
	tools := body["tools"]
	if config, ok := body["toolConfig"].(map[string]any); ok {
		tools = config["tools"]
	}
	add("tool", tools)
	add("system", body["instructions"])
	add("system", body["system"])
	add("item", body["input"])
	messages, _ := body["messages"].([]any)
	for _, m := range messages {
		message, _ := m.(map[string]any)
		role, _ := message["role"].(string)
		add(role, message["content"])
		add(role+" calls", message["tool_calls"])
	}
	return out
}

// addBlock adds a block without its mark. A text is the same block in all of its forms.
func addBlock(out []promptBlock, role string, v any) []promptBlock {
	block, isObject := v.(map[string]any)
	if isObject && block["cachePoint"] != nil {
		out[len(out)-1].marked = true
		return out
	}
	block = maps.Clone(block)
	marked := block["cache_control"] != nil
	delete(block, "cache_control")
	text, plain := v.(string)
	if inner, ok := block["text"].(string); ok {
		text, plain = inner, true
	}
	if !plain {
		raw, _ := json.Marshal(block) // it was decoded from JSON
		text = string(raw)
	}
	return append(out, promptBlock{role + "\n" + text, marked})
}

// cacheAnswer returns a response in the protocol of a path.
func cacheAnswer(path string, all, cached, written int) string {
	rest := all - cached - written
	switch {
	case strings.HasSuffix(path, "/messages"):
		return fmt.Sprintf(`{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":%d,"output_tokens":1,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d}}`, rest, cached, written)
	case strings.HasSuffix(path, "/converse"):
		return fmt.Sprintf(`{"output":{"message":{"role":"assistant","content":[{"text":"ok"}]}},"stopReason":"end_turn","usage":{"inputTokens":%d,"outputTokens":1,"cacheReadInputTokens":%d,"cacheWriteInputTokens":%d}}`, rest, cached, written)
	case strings.HasSuffix(path, "/responses"):
		return fmt.Sprintf(`{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"ok"}]}],"usage":{"input_tokens":%d,"output_tokens":1,"input_tokens_details":{"cached_tokens":%d}}}`, all, cached)
	}
	return fmt.Sprintf(`{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":%d}}}`, all, cached)
}
