package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"weft/activities/contract"
	"weft/activities/llm/wire"
	"weft/activities/textutil"
)

// wordings are what providers say of an error, in lower case: codes, and texts that count for some statuses alone. They
// take precedence over the HTTP status, which is used loosely.
var wordings = []struct {
	class        string
	codes, texts []string
	statuses     []int
}{
	{class: contract.ClassDenied, statuses: []int{400}, texts: []string{
		"api key not valid", "api_key_invalid", "api key expired", "pass a valid api key", "incorrect api key", "invalid api key",
	}},
	{class: contract.ClassQuotaExceeded, statuses: []int{400, 403, 429}, codes: []string{
		"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_balance", "insufficient_credits",
		"payment_required", "quota_exceeded", "billing_error", "arrearage",
	}, texts: []string{
		"insufficient balance", "insufficient credits", "insufficient_quota", "credit balance", "requires more credits",
		"used all available credits", "run out of credits", "doesn't have any credits", "specified api usage limits",
	}},
	{class: contract.ClassContextLength, statuses: []int{0, 400, 413, 422}, codes: []string{
		"context_length_exceeded", "context_window_exceeded", "exceed_context_size_error",
	}, texts: []string{
		"maximum context", "context length", "context_length", "context window", "context size", "prompt is too long", "too many tokens",
		"too large for model with", "exceed context limit", "exceeds the maximum number of tokens", "maximum prompt length",
		"maximum model length", "range of input length", "input is too long", "input too long", "exceeded model token limit",
		"reduce the length of the messages", "reduce your message size", "`max_new_tokens` must be",
	}},
	{class: contract.ClassRefused, statuses: []int{0, 400, 403, 413, 422}, codes: []string{
		flaggedInput, "content_filter", "content_policy_violation", "content_filtered", "moderation_blocked", "responsibleaipolicyviolation",
		"data_inspection_failed", "datainspectionfailed",
	}, texts: []string{
		"content management policy", "content_filter", "content_policy", "requires moderation", "input was flagged", "flagged for",
		"safety system", "content exists risk", "violates usage guidelines", "inappropriate content",
	}},
	// The model's answer was invalid and withheld: another attempt may succeed.
	{class: contract.ClassUnavailable, codes: withheldCodes},
}

// withheldCodes are of Groq's errors for an answer that it does not give because it is invalid.
var withheldCodes = []string{"tool_use_failed", "json_validate_failed", "output_parse_failed"}

// withholds reports whether there is an answer that the provider does not give.
func (r *report) withholds() bool {
	return slices.ContainsFunc(r.codes, func(code string) bool { return slices.Contains(withheldCodes, code) })
}

// statusOfCode gives the HTTP status that a code means, for errors inside a 200 answer.
var statusOfCode = map[string]int{
	"rate_limit_exceeded": 429, "rate_limit_error": 429, "rate_limited": 429, "too_many_requests": 429, "resource_exhausted": 429,
	"invalid_request_error": 400, "invalid_request": 400, "badrequesterror": 400, "invalid_argument": 400, "bad_request": 400,
	"authentication_error": 401, "invalid_api_key": 401, "unauthenticated": 401,
	"permission_error": 403, "permission_denied": 403,
	"not_found_error": 404, "notfounderror": 404, "model_not_found": 404, "not_found": 404,
	"server_error": 500, "internal_server_error": 500, "internalservererror": 500, "api_error": 500, "internal": 500,
	"toomanyrequests": 429, "notauthenticated": 401, "notauthorizedornotfound": 404, "invalidparameter": 400, "validationexception": 400, "serviceunavailable": 503,
	"request_too_large": 413, "timeout_error": 504, "deadline_exceeded": 504,
	"throttling": 429, "throttlingexception": 429, "throttling.ratequota": 429, "throttling.allocationquota": 429,
	"overloaded_error": 503, "capacity_exceeded": 503, "service_unavailable": 503, "engine_overloaded": 503, "unavailable": 503, "timeout": 504,
}

func classOf(r *report) string {
	st, text := r.effective(), strings.ToLower(r.message)
	for _, w := range wordings {
		worded := slices.Contains(w.statuses, st) && containsAny(text, w.texts)
		if w.class == contract.ClassQuotaExceeded && r.after > 0 {
			worded = false // what is there again after a wait is a limit
		}
		if worded || slices.ContainsFunc(r.codes, func(c string) bool { return slices.Contains(w.codes, c) }) {
			return w.class
		}
	}
	return classOfStatus(st)
}

// statusClasses are the classes of statuses that say more than their hundreds. 424 is Bedrock's for a model that failed,
// 498 Groq's for one that is busy.
var statusClasses = map[int]string{
	401: contract.ClassDenied, 402: contract.ClassQuotaExceeded, 403: contract.ClassDenied, 413: contract.ClassTooLarge,
	429: contract.ClassRateLimited, 408: contract.ClassUnavailable, 409: contract.ClassUnavailable, 424: contract.ClassUnavailable,
	425: contract.ClassUnavailable, 498: contract.ClassUnavailable,
}

// classOfStatus classifies an HTTP status; 0, for an error in a 200 answer without a code, is retryable.
func classOfStatus(st int) string {
	switch class, known := statusClasses[st]; {
	case known:
		return class
	case st < 300 || st >= 500:
		return contract.ClassUnavailable
	case st < 400:
		return contract.ClassConnection
	}
	return contract.ClassBadRequest
}

func containsAny(s string, subs []string) bool {
	return slices.ContainsFunc(subs, func(sub string) bool { return strings.Contains(s, sub) })
}

func (p *provider) reported(r *report) *contract.Failure {
	f := &contract.Failure{Class: classOf(r)}
	message := cmp.Or(p.clean(r.message), "no message")
	switch st := r.status; {
	case st >= 300 && st < 400:
		f.Text = fmt.Sprintf("model %q: %s answered %s, a redirect to %s, which is not followed", p.Ref(), p.Base, statusText(st), p.clean(r.target()))
	case st >= 400:
		f.Text = fmt.Sprintf("model %q: provider answered %s: %s", p.Ref(), statusText(st), message)
	default:
		f.Text = fmt.Sprintf("model %q: provider answered %s, but reports an error: %s", p.Ref(), statusText(st), message)
	}
	if code := p.clean(strings.Join(r.codes, ", ")); code != "" && r.status < 300 {
		f.Text += fmt.Sprintf(" (%s)", code)
	}
	if id := p.clean(r.requestID()); id != "" {
		f.Text += fmt.Sprintf(" (request %s)", textutil.Truncate(id, 80))
	}
	if f.Class == contract.ClassRateLimited || f.Class == contract.ClassUnavailable {
		f.After = r.after
	}
	f.Remedy = p.remedy(f.Class, r.effective())
	return f
}

// statusText is like 429 Too Many Requests.
func statusText(st int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", st, http.StatusText(st)))
}

// noResponses is the remedy where the table asks a server by an API that it may not have.
const noResponses = "check the model's name, and providers.PROVIDER.base_url (BASE); if the server has no Responses API, set providers.PROVIDER.api to chat"

// remedies say what to do about a class of failure; about one of bad_request, if no model of the name is found. Those
// of a kind of provider stand under the kind and the class.
var remedies = map[string]string{
	contract.ClassDenied:                 "check KEY in the worker's environment, and that it may use this model",
	"oci " + contract.ClassDenied:        "check providers.PROVIDER.auth and what it names, and that a policy lets it use this model",
	contract.ClassQuotaExceeded:          "add credit for the account of KEY, or choose another model",
	contract.ClassRateLimited:            "set providers.PROVIDER.requests_per_minute or tokens_per_minute to what the provider allows, or have the provider raise its limit",
	contract.ClassContextLength:          "shorten the prompt or the conversation, or choose a model with a larger context",
	contract.ClassRefused:                "change what the model is asked, or choose another model",
	contract.ClassTooLarge:               "send less in one call",
	contract.ClassConnection:             "set providers.PROVIDER.base_url to the final address",
	contract.ClassBadRequest:             "check the model's name, and providers.PROVIDER.base_url (BASE)",
	"openai " + contract.ClassBadRequest: noResponses,
	"azure " + contract.ClassBadRequest:  noResponses,
	"ollama " + contract.ClassBadRequest: "run: ollama pull MODEL; or check providers.PROVIDER.base_url (BASE)",
	"oci " + contract.ClassBadRequest: "check the model's name, providers.PROVIDER.region and compartment (BASE), and that a policy lets the worker use it: " +
		"OCI says the same for what is not there and what is not allowed",
}

func (p *provider) remedy(class string, status int) string {
	if class == contract.ClassBadRequest && status != http.StatusNotFound {
		return ""
	}
	text := cmp.Or(remedies[p.row.Name+" "+class], remedies[class])
	return strings.NewReplacer("KEY", p.keyName, "PROVIDER", p.Provider, "BASE", p.Base, "MODEL", p.Name).Replace(text)
}

// failf makes a failure of a class. remedy may be empty.
func failf(class, remedy, format string, args ...any) *contract.Failure {
	return &contract.Failure{Class: class, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

// toFailure turns an error of the network or of an answer's format into a failure. The caller's context error
// comes back unchanged.
func (p *provider) toFailure(ctx context.Context, err error) error {
	var (
		own     *contract.Failure
		s       stalled
		invalid *wire.Error
		ue      *url.Error
	)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &own):
		return own
	case errors.Is(err, errBodyLimit):
		return failf(contract.ClassTooLarge, fmt.Sprintf("bound the answer, or raise providers.%s.max_body_bytes", p.Provider),
			"model %q: answer is longer than %d bytes", p.Ref(), p.maxBody)
	case errors.As(err, &s):
		return failf(contract.ClassUnavailable, fmt.Sprintf("if the model is only slow, raise providers.%s.first_token_timeout or idle_timeout", p.Provider),
			"model %q: %v", p.Ref(), s)
	case errors.As(err, &invalid):
		return failf(invalid.Class, "", "model %q: %s", p.Ref(), p.clean(invalid.Text))
	case errors.As(err, &ue):
		err = ue.Err
	}
	return failf(contract.ClassUnavailable, fmt.Sprintf("check that %s is up and can be reached from the worker", p.Base),
		"model %q: call to %s: %s", p.Ref(), p.Base, p.clean(err.Error()))
}

// maxQuoted bounds what a message quotes of a provider's text, in bytes.
const maxQuoted = 300

// secretShapes are texts that look like keys: servers repeat the one that they refuse.
var secretShapes = regexp.MustCompile(`(?i)\bbearer\s+[^\s"',]+|\b(sk|pk|rk|gsk|xai|hf)[-_][A-Za-z0-9_\-*.]{6,}|\bAIza[A-Za-z0-9_\-]{10,}|[A-Za-z0-9_\-]*\*{3,}[A-Za-z0-9_\-]*`)

// clean removes secrets and control characters from a provider's text and truncates it to one line of
// [maxQuoted] bytes.
func (p *provider) clean(s string) string {
	// A secret that this cuts in two is far beyond what is quoted.
	if len(s) > 64<<10 {
		s = s[:64<<10]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(p.key) >= 4 {
		s = strings.ReplaceAll(s, p.key, "[secret]")
	}
	for _, values := range p.headers {
		for _, v := range strings.Fields(strings.Join(values, " ")) {
			if len(v) >= 8 {
				s = strings.ReplaceAll(s, v, "[secret]")
			}
		}
	}
	s = p.mask.Text(s)
	s = secretShapes.ReplaceAllString(s, "[secret]")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return textutil.Truncate(strings.Join(strings.Fields(s), " "), maxQuoted-len("..."))
}
