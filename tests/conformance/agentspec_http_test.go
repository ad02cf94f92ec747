package conformance

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
)

// suiteHTTP serves the HTTP endpoints that the suite's documents use, and returns their base URL.
func suiteHTTP(t *testing.T) string {
	mux := http.NewServeMux()
	handle := func(path string, fn func(in map[string]any) any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			in := map[string]any{}
			if r.Method != http.MethodGet {
				if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
					http.Error(w, err.Error(), http.StatusUnprocessableEntity)
					return
				}
			}
			for k, v := range r.URL.Query() {
				in[k] = v[0]
			}
			out := fn(in)
			if out == nil {
				http.NotFound(w, r)
				return
			}
			_ = json.NewEncoder(w).Encode(out)
		})
	}
	number := func(v any) float64 {
		if s, ok := v.(string); ok {
			f, _ := strconv.ParseFloat(s, 64) // an invalid number counts as 0
			return f
		}
		f, _ := v.(float64)
		return f
	}
	power := func(a, b float64) float64 {
		out := 1.0
		for range int(b) {
			out *= a
		}
		return out
	}
	handle("/calculator/sum", func(in map[string]any) any { return map[string]any{"result": number(in["a"]) + number(in["b"])} })
	handle("/calculator/sum_multiply", func(in map[string]any) any {
		return map[string]any{"sum": number(in["a"]) + number(in["b"]), "product": number(in["a"]) * number(in["b"])}
	})
	handle("/calculator/exponential", func(in map[string]any) any { return map[string]any{"result": power(number(in["a"]), number(in["b"]))} })
	table := func(path, key, name string, rows map[string]any) {
		handle(path, func(in map[string]any) any {
			k, _ := in[key].(string)
			if v, ok := rows[k]; ok {
				return map[string]any{name: v}
			}
			return rows[""]
		})
	}
	weather := func(degrees int, words string) any {
		return map[string]any{"temperature": degrees, "weather": words}
	}
	table("/animalFinder", "country", "animal", map[string]any{"China": "Panda", "Morocco": "Atlas Lion"})
	table("/findCountry", "continent", "country", map[string]any{"Africa": "Morocco", "America": "Canada"})
	table("/findCity", "country", "city", map[string]any{"Morocco": "Casablanca", "Switzerland": "Zurich"})
	table("/findWeather", "city", "weather", map[string]any{"Casablanca": weather(22, "Sunny"), "Zurich": weather(15, "Rainy"), "": map[string]any{"weather": weather(0, "CITY NOT FOUND")}})
	handle("/weather/forecast_top_json", func(in map[string]any) any { return map[string]any{"weather": "sunny in " + in["city"].(string)} })
	handle("/weather/forecast_nested_json", func(in map[string]any) any {
		return map[string]any{"weather": "sunny in " + in["location"].(map[string]any)["city"].(string)}
	})
	mux.HandleFunc("POST /weather/forecast_form", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
			http.Error(w, "not a form", http.StatusUnsupportedMediaType)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"weather": "sunny in " + r.FormValue("city")})
	})
	mux.HandleFunc("POST /array/process_json", func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var in []any
		if err := json.Unmarshal(raw, &in); err != nil || len(in) != 2 {
			http.Error(w, "not an array of two elements", http.StatusUnprocessableEntity)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"processed_city": in[1].(map[string]any)["location"]})
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

// agentspecServer is a flow whose input selects the server of an ApiNode, restricted by its url_allow_list.
const agentspecServer = `{"component_type":"Flow","agentspec_version":"26.1.2","name":"f","start_node":{"$component_ref":"s"},
"nodes":[{"$component_ref":"s"},{"$component_ref":"n"},{"$component_ref":"e"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"n"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"n"},"to_node":{"$component_ref":"e"}}],
"data_flow_connections":[{"component_type":"DataFlowEdge","name":"3","source_node":{"$component_ref":"n"},"source_output":"animal","destination_node":{"$component_ref":"e"},"destination_input":"animal"}],
"$referenced_components":{"s":{"component_type":"StartNode","name":"s"},
"n":{"component_type":"ApiNode","name":"n","url":"{{BASE}}/animalFinder?country={{country}}","http_method":"GET","url_allow_list":["SERVER/animal"],"inputs":[{"title":"BASE","type":"string"},{"title":"country","type":"string","default":"China"}],"outputs":[{"title":"animal","type":"string"}]},
"e":{"component_type":"EndNode","name":"e","outputs":[{"title":"animal","type":"string"}]}}}`

func TestAgentSpecServer(t *testing.T) {
	t.Parallel()
	server, other := suiteHTTP(t), suiteHTTP(t)
	for base, want := range map[string]string{server: "", other: "is not allowed", server + "/x": "is not allowed"} {
		p := harness.TestRun{Document: strings.ReplaceAll(agentspecServer, "SERVER", server), Script: "rules: [{say: x}]", ToolSettings: tool.Settings{AllowPrivate: true},
			SetInput: func(in *contract.RunInput) { in.Params = json.RawMessage(`{"BASE":"` + base + `"}`) }}.Execute(t)
		if want == "" && (p.Err != nil || string(p.Result.ResultData) != `{"animal":"Panda"}`) {
			t.Errorf("%v, %+v", p.Err, p.Result)
		}
		if want != "" && (p.Err == nil || !strings.Contains(p.Err.Text, want)) {
			t.Errorf("base URL %s: %v, %+v", base, p.Err, p.Result)
		}
	}
}
