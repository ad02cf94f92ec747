package llm

import (
	"net/http"
	"testing"
	"time"

	"weft/activities/contract"
)

// TestVendorErrors checks the classes of errors in vendors' formats. Many state the cause only in
// the message, with a misleading status code.
func TestVendorErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		class  string
	}{
		"xAI, too long":            {400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 136973 tokens."}`, contract.ClassContextLength},
		"xAI, invalid key":         {400, `{"code":"Client specified an invalid argument","error":"Incorrect API key provided: na***ys. You can obtain an API key from https://console.x.ai."}`, contract.ClassDenied},
		"xAI, no credits, 429":     {429, `{"code":"Some resource has been exhausted","error":"Your team t-1 has either used all available credits or reached its monthly spending limit."}`, contract.ClassQuotaExceeded},
		"xAI, no credits, 403":     {403, `{"code":"permission-denied","error":"Your team t-1 has either used all available credits or reached its monthly spending limit."}`, contract.ClassQuotaExceeded},
		"xAI, a new team":          {403, `{"code":"The caller does not have permission to execute the specified operation","error":"Your newly created team doesn't have any credits or licenses yet."}`, contract.ClassQuotaExceeded},
		"xAI, a refusal":           {403, `{"code":"The caller does not have permission to execute the specified operation","error":"Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"}`, contract.ClassRefused},
		"xAI, not allowed":         {403, `{"code":"The caller does not have permission to execute the specified operation","error":"The API key has no access to this model."}`, contract.ClassDenied},
		"DashScope, too long":      {400, `{"error":{"code":"invalid_parameter_error","param":null,"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]","type":"invalid_request_error"}}`, contract.ClassContextLength},
		"DashScope, a refusal":     {400, `{"error":{"code":"data_inspection_failed","param":null,"message":"Input data may contain inappropriate content.","type":"data_inspection_failed"}}`, contract.ClassRefused},
		"DashScope, in arrears":    {400, `{"error":{"code":"Arrearage","param":null,"message":"Access denied, please make sure your account is in good standing.","type":"Arrearage"}}`, contract.ClassQuotaExceeded},
		"Bedrock, too long":        {400, `{"message":"Input is too long for requested model."}`, contract.ClassContextLength},
		"Bedrock, model error":     {424, `{"message":"The request failed due to an error while processing the model."}`, contract.ClassUnavailable},
		"vLLM, too long":           {400, `{"object":"error","message":"The decoder prompt (length 163840) is longer than the maximum model length of 131072.","type":"BadRequestError","param":null,"code":400}`, contract.ClassContextLength},
		"TGI, too long":            {422, "{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3474 `inputs` tokens and 60 `max_new_tokens`\",\"error_type\":\"validation\"}", contract.ClassContextLength},
		"Groq, too long":           {400, `{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages"}}`, contract.ClassContextLength},
		"Groq, too large at once":  {413, `{"error":{"message":"Request too large for model llama-3.1-8b-instant on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}`, contract.ClassContextLength},
		"Groq, invalid call":       {400, `{"error":{"message":"Failed to call a function. Please adjust your prompt.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=get"}}`, contract.ClassUnavailable},
		"Groq, invalid JSON":       {400, `{"error":{"message":"Failed to generate JSON. Please adjust your prompt.","type":"invalid_request_error","code":"json_validate_failed","failed_generation":""}}`, contract.ClassUnavailable},
		"Groq, no capacity":        {498, `{"error":{"message":"Flex tier capacity exceeded","type":"capacity_exceeded"}}`, contract.ClassUnavailable},
		"Anthropic, a spend limit": {400, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-04-01 at 00:00 UTC."}}`, contract.ClassQuotaExceeded},
		"Google, unknown key":      {400, `{"error":{"code":400,"message":"API Key not found. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}`, contract.ClassDenied},
		// Messages that resemble those of another class.
		"max_tokens too large":             {400, `{"error":{"message":"max_tokens is too large: 99999. This model supports at most 16384 completion tokens.","type":"invalid_request_error","code":"invalid_value"}}`, contract.ClassBadRequest},
		"rate limit that mentions credits": {429, `{"error":{"message":"you used 90 credits in this minute"}}`, contract.ClassRateLimited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReport(tc.status, http.Header{}, []byte(tc.body), time.Now())
			if got := classOf(r); got != tc.class {
				t.Errorf("class %q, want %q, of %q with codes %q", got, tc.class, r.message, r.codes)
			}
		})
	}
}

// TestVendorErrorsInStreams checks the classes of errors inside a stream, which have no status code.
func TestVendorErrorsInStreams(t *testing.T) {
	for name, tc := range map[string]struct{ body, class string }{
		"Groq, invalid call":     {`{"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed"}}`, contract.ClassUnavailable},
		"Groq, no capacity":      {`{"error":{"message":"no room","type":"capacity_exceeded"}}`, contract.ClassUnavailable},
		"DashScope, a refusal":   {`{"error":{"code":"data_inspection_failed","message":"Output data may contain inappropriate content.","type":"data_inspection_failed"}}`, contract.ClassRefused},
		"DashScope, too fast":    {`{"error":{"code":"Throttling.RateQuota","message":"Requests rate limit exceeded","type":"Throttling.RateQuota"}}`, contract.ClassRateLimited},
		"Bedrock, too fast":      {`{"error":{"type":"ThrottlingException","message":"Too many requests"}}`, contract.ClassRateLimited},
		"xAI, too long":          {`{"error":"This model's maximum prompt length is 131072 but the request contains 136973 tokens."}`, contract.ClassContextLength},
		"vLLM, too long":         {`{"error":{"object":"error","message":"The decoder prompt (length 163840) is longer than the maximum model length of 131072.","code":400}}`, contract.ClassContextLength},
		"Anthropic, spend limit": {`{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits."}}`, contract.ClassQuotaExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReport(http.StatusOK, http.Header{}, []byte(tc.body), time.Now())
			if got := classOf(r); got != tc.class {
				t.Errorf("class %q, want %q, of %q with codes %q", got, tc.class, r.message, r.codes)
			}
		})
	}
}
