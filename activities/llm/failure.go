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

// errorPatterns classify errors by their codes and, for some statuses, by texts in lower case. They take precedence over
// the HTTP status, which providers use inconsistently.
var errorPatterns = []struct {
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
	// The provider withheld an invalid answer of the model: another attempt may succeed.
	{class: contract.ClassUnavailable, codes: withheldCodes},
}

// withheldCodes are Groq's codes for invalid answers that it withholds.
var withheldCodes = []string{"tool_use_failed", "json_validate_failed", "output_parse_failed"}

// answerWithheld reports whether the provider withholds an answer of the model.
func (r *report) answerWithheld() bool {
	return slices.ContainsFunc(r.codes, func(code string) bool { return slices.Contains(withheldCodes, code) })
}

// statusOfCode maps codes to HTTP statuses, for errors in a 200 response.
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
	st, text := r.effectiveStatus(), strings.ToLower(r.message)
	for _, w := range errorPatterns {
		matches := slices.Contains(w.statuses, st) && containsAny(text, w.texts)
		if w.class == contract.ClassQuotaExceeded && r.retryAfter > 0 {
			matches = false // a quota that is restored after a delay is a rate limit
		}
		if matches || slices.ContainsFunc(r.codes, func(c string) bool { return slices.Contains(w.codes, c) }) {
			return w.class
		}
	}
	return classOfStatus(st)
}

// statusClasses are the classes of specific statuses. Bedrock uses 424 for a model that failed, Groq 498 for one that is
// at capacity.
var statusClasses = map[int]string{
	401: contract.ClassDenied, 402: contract.ClassQuotaExceeded, 403: contract.ClassDenied, 413: contract.ClassTooLarge,
	429: contract.ClassRateLimited, 408: contract.ClassUnavailable, 409: contract.ClassUnavailable, 424: contract.ClassUnavailable,
	425: contract.ClassUnavailable, 498: contract.ClassUnavailable,
}

// classOfStatus classifies an HTTP status. 0, an error in a 200 response without a code, is retryable.
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

func (p *provider) failureFrom(r *report) *contract.Failure {
	f := &contract.Failure{Class: classOf(r)}
	message := cmp.Or(p.clean(r.message), "no message")
	switch st := r.status; {
	case st >= 300 && st < 400:
		f.Text = fmt.Sprintf("model %q: %s returned %s, a redirect to %s, which is not followed", p.Ref(), p.Base, statusText(st), p.clean(r.redirectTarget()))
	case st >= 400:
		f.Text = fmt.Sprintf("model %q: provider returned %s: %s", p.Ref(), statusText(st), message)
	default:
		f.Text = fmt.Sprintf("model %q: provider returned %s with an error: %s", p.Ref(), statusText(st), message)
	}
	if code := p.clean(strings.Join(r.codes, ", ")); code != "" && r.status < 300 {
		f.Text += fmt.Sprintf(" (%s)", code)
	}
	if id := p.clean(r.requestID()); id != "" {
		f.Text += fmt.Sprintf(" (request %s)", textutil.Truncate(id, 80))
	}
	if f.Class == contract.ClassRateLimited || f.Class == contract.ClassUnavailable {
		f.After = r.retryAfter
	}
	f.Remedy = p.remedy(f.Class, r.effectiveStatus())
	return f
}

// statusText returns a status with its text, such as 429 Too Many Requests.
func statusText(st int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", st, http.StatusText(st)))
}

// responsesRemedy is the remedy if a server may lack the Responses API that it is called with by default.
const responsesRemedy = "check the model's name, and providers.PROVIDER.base_url (BASE); if the server has no Responses API, set providers.PROVIDER.api to chat"

// remedies are the remedies by class of failure, or by kind of provider and class. Those for bad_request apply if the
// model is not found.
var remedies = map[string]string{
	contract.ClassDenied:                 "check KEY in the worker's environment, and that it may use this model",
	"oci " + contract.ClassDenied:        "check providers.PROVIDER.auth and its credentials, and that a policy allows them to use this model",
	contract.ClassQuotaExceeded:          "add credit for the account of KEY, or choose another model",
	contract.ClassRateLimited:            "set providers.PROVIDER.requests_per_minute or tokens_per_minute to what the provider allows, or have the provider raise its limit",
	contract.ClassContextLength:          "shorten the prompt or the conversation, or choose a model with a larger context",
	contract.ClassRefused:                "change the prompt, or choose another model",
	contract.ClassTooLarge:               "send less in one call",
	contract.ClassConnection:             "set providers.PROVIDER.base_url to the final address",
	contract.ClassBadRequest:             "check the model's name, and providers.PROVIDER.base_url (BASE)",
	"openai " + contract.ClassBadRequest: responsesRemedy,
	"azure " + contract.ClassBadRequest:  responsesRemedy,
	"ollama " + contract.ClassBadRequest: "run: ollama pull MODEL; or check providers.PROVIDER.base_url (BASE)",
	"oci " + contract.ClassBadRequest: "check the model's name, providers.PROVIDER.region and compartment (BASE), and that a policy allows the worker to use it: " +
		"OCI returns the same error for resources that do not exist and for those that are not allowed",
}

func (p *provider) remedy(class string, status int) string {
	if class == contract.ClassBadRequest && status != http.StatusNotFound {
		return ""
	}
	text := cmp.Or(remedies[p.row.Name+" "+class], remedies[class])
	return strings.NewReplacer("KEY", p.keyName, "PROVIDER", p.Provider, "BASE", p.Base, "MODEL", p.Name).Replace(text)
}

// failf returns a failure of a class. remedy may be empty.
func failf(class, remedy, format string, args ...any) *contract.Failure {
	return &contract.Failure{Class: class, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

// toFailure converts an error of the network or of a response's format to a failure. It returns the context's error
// unchanged.
func (p *provider) toFailure(ctx context.Context, err error) error {
	var (
		failure *contract.Failure
		stall   stallError
		invalid *wire.Error
		urlErr  *url.Error
	)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &failure):
		return failure
	case errors.Is(err, errBodyLimit):
		return failf(contract.ClassTooLarge, fmt.Sprintf("limit the answer's length, or raise providers.%s.max_body_bytes", p.Provider),
			"model %q: response is longer than %d bytes", p.Ref(), p.maxBody)
	case errors.As(err, &stall):
		return failf(contract.ClassUnavailable, fmt.Sprintf("if the model is just slow, raise providers.%s.first_token_timeout or idle_timeout", p.Provider),
			"model %q: %v", p.Ref(), stall)
	case errors.As(err, &invalid):
		return failf(invalid.Class, "", "model %q: %s", p.Ref(), p.clean(invalid.Text))
	case errors.As(err, &urlErr):
		err = urlErr.Err
	}
	return failf(contract.ClassUnavailable, fmt.Sprintf("check that %s is up and can be reached from the worker", p.Base),
		"model %q: call to %s: %s", p.Ref(), p.Base, p.clean(err.Error()))
}

// maxQuoted limits how much of a provider's text a message quotes, in bytes.
const maxQuoted = 300

// secretPattern matches texts that look like keys: servers quote a key that they reject.
var secretPattern = regexp.MustCompile(`(?i)\bbearer\s+[^\s"',]+|\b(sk|pk|rk|gsk|xai|hf)[-_][A-Za-z0-9_\-*.]{6,}|\bAIza[A-Za-z0-9_\-]{10,}|[A-Za-z0-9_\-]*\*{3,}[A-Za-z0-9_\-]*`)

// clean removes secrets and control characters from a provider's text and truncates it to one line of [maxQuoted] bytes.
func (p *provider) clean(s string) string {
	// A secret that is split here is far beyond the quoted part.
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
	s = secretPattern.ReplaceAllString(s, "[secret]")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return textutil.Truncate(strings.Join(strings.Fields(s), " "), maxQuoted-len("..."))
}
