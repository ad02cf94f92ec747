package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"weft/activities/contract"
)

// TestFiles checks the encoding of documents and audio in each protocol, in user messages and in tool results.
func TestFiles(t *testing.T) {
	pdf := contract.Media{MediaType: "application/pdf", Data: "UERG", Name: "q3.pdf"}
	mp3 := contract.Media{MediaType: "audio/mpeg", Data: "TVAz"}
	every := []string{""}
	for name, tc := range map[string]struct {
		server Server
		model  string
		want   []string
		not    string
	}{
		"chat": {Server{Documents: every, Audio: every, ToolChoice: true}, "m", []string{
			`{"file":{"file_data":"data:application/pdf;base64,UERG","filename":"q3.pdf"},"type":"file"}`,
			`{"input_audio":{"data":"TVAz","format":"mp3"},"type":"input_audio"}`, "The files from the result of get (call c1), 2:"}, ""},
		"mistral": {Server{MediaForm: MediaMistral, Documents: every, Audio: []string{"voxtral"}}, "voxtral-small", []string{
			`{"document_name":"q3.pdf","document_url":"data:application/pdf;base64,UERG","type":"document_url"}`, `{"input_audio":"TVAz","type":"input_audio"}`}, ""},
		"mistral, without audio": {Server{MediaForm: MediaMistral, Documents: every, Audio: []string{"voxtral"}}, "mistral-large", []string{
			`does not support audio`}, "TVAz"},
		"dashscope": {Server{MediaForm: MediaDataURL, Audio: []string{"omni"}}, "qwen-omni", []string{
			`{"data":"data:;base64,TVAz","format":"mp3"}`, "does not support documents"}, "UERG"},
		"responses": {Server{Protocol: Responses, ResultImages: true, ResultDocuments: true, Documents: every}, "m", []string{
			`{"file_data":"data:application/pdf;base64,UERG","filename":"q3.pdf","type":"input_file"}`, "does not support audio"}, "TVAz"},
		"claude": {Server{Protocol: Claude, ResultImages: true, ResultDocuments: true, Documents: every}, "claude-opus-4-8", []string{
			`{"source":{"data":"UERG","media_type":"application/pdf","type":"base64"},"title":"q3.pdf","type":"document"}`, "does not support audio"}, "TVAz"},
		"gemini": {Server{Protocol: Gemini, Documents: every, Audio: every}, "gemini-3", []string{
			`{"inlineData":{"data":"UERG","mimeType":"application/pdf"}}`, `{"inlineData":{"data":"TVAz","mimeType":"audio/mp3"}}`}, ""},
		"converse": {Server{Protocol: Converse, ResultImages: true, ResultDocuments: true, Documents: every}, "amazon.nova-pro", []string{
			`{"document":{"format":"pdf","name":"document 1","source":{"bytes":"UERG"}}}`, `"name":"document 2"`, "does not support audio"}, "q3.pdf"},
		"oci": {Server{Protocol: OCI, Documents: []string{"google."}, Audio: []string{"google."}}, "google.gemini-2.5-pro", []string{
			`{"documentUrl":{"url":"data:application/pdf;base64,UERG"},"type":"DOCUMENT"}`, `{"audioUrl":{"url":"data:audio/mpeg;base64,TVAz"},"type":"AUDIO"}`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := Model{Server: tc.server, Provider: "p", Name: tc.model, Base: "http://x", Compartment: "c"}
			message := contract.Message{Role: contract.RoleUser, Text: "read"}
			for _, file := range []contract.Media{pdf, mp3} {
				if m.Accepts(file.Kind()) {
					message.Media = append(message.Media, file)
				}
			}
			out, err := m.Encode(&Request{Options: plainOptions(), Messages: []contract.Message{message,
				{Role: contract.RoleAssistant, Calls: []contract.ToolCall{{ID: "c1", Name: "get", Arguments: "{}"}}},
				{Role: contract.RoleTool, CallID: "c1", Name: "get", Text: "here", Media: []contract.Media{pdf, mp3}},
			}})
			if err != nil || !json.Valid(out.Body) {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(string(out.Body), want) {
					t.Errorf("no %s in %s", want, out.Body)
				}
			}
			if tc.not != "" && strings.Contains(string(out.Body), tc.not) {
				t.Errorf("%s in %s", tc.not, out.Body)
			}
		})
	}
}
