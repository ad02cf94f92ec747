package oauth

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// byClient requests a token with the worker's client credentials.
func (a *Access) byClient(ctx context.Context, own login, c *Challenge) (string, error) {
	conn := a.of
	a.locate(ctx, &own, c)
	meta, err := a.handler(own, "").GetServerMetadata(ctx)
	if err != nil {
		return "", a.of.Failure(contract.ClassUnavailable, "its authorization server cannot be found: "+err.Error(), "")
	}
	form := url.Values{"grant_type": {"client_credentials"}, "resource": {cmp.Or(a.resource.Resource, conn.URL)}}
	if scopes := a.scopes(own.Scopes); len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	basic := false
	switch methods := meta.TokenEndpointAuthMethodsSupported; {
	case conn.KeyFile != "":
		assertion, err := a.assertion(cmp.Or(meta.Issuer, meta.TokenEndpoint))
		if err != nil {
			return "", a.of.Failure(contract.ClassConnection, err.Error(), fmt.Sprintf("correct %s.oauth_key_file in weft.yaml", a.of.Setting))
		}
		form.Set("client_id", conn.ClientID)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	case len(methods) == 0 || slices.Contains(methods, "client_secret_basic"):
		basic = true
	default:
		form.Set("client_id", conn.ClientID)
		form.Set("client_secret", conn.ClientSecret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, meta.TokenEndpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", a.of.Failure(contract.ClassConnection, "its authorization server has an invalid token endpoint", "")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if basic {
		req.SetBasicAuth(url.QueryEscape(conn.ClientID), url.QueryEscape(conn.ClientSecret))
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return "", a.of.Failure(contract.ClassUnavailable, "its authorization server: "+textutil.ErrorText(err), "")
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&own.Token); resp.StatusCode >= 500 {
		return "", a.of.Failure(contract.ClassUnavailable, fmt.Sprintf("its authorization server answered %d", resp.StatusCode), "")
	} else if err != nil || resp.StatusCode >= 400 || own.Token.AccessToken == "" {
		return "", a.needed(fmt.Sprintf("its authorization server did not issue a token (status %d)", resp.StatusCode))
	}
	own.Token.RefreshToken, own.Token.ExpiresAt = "", time.Time{}
	if own.Token.ExpiresIn > 0 {
		own.Token.ExpiresAt = time.Now().Add(time.Duration(own.Token.ExpiresIn) * time.Second)
	}
	return own.Token.AccessToken, a.save(ctx, &own)
}

// assertion returns a signed JWT that authenticates the client.
func (a *Access) assertion(audience string) (string, error) {
	text, err := textutil.PEM(a.of.KeyFile)
	if err != nil {
		return "", fmt.Errorf("oauth_key_file: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", errors.New("oauth_key_file: not PEM")
	}
	now := time.Now()
	claims := map[string]any{"iss": a.of.ClientID, "sub": a.of.ClientID, "aud": audience,
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "jti": randomText()}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		key, err = x509.ParseECPrivateKey(block.Bytes)
	}
	if err != nil {
		key, _ = x509.ParsePKCS1PrivateKey(block.Bytes) // its type is checked below
	}
	var method jose.SignatureAlgorithm
	switch key.(type) {
	case *ecdsa.PrivateKey:
		method = jose.ES256
	case *rsa.PrivateKey:
		method = jose.RS256
	default:
		return "", errors.New("oauth_key_file: neither an EC nor an RSA private key")
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: method, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", fmt.Errorf("oauth_key_file: %w", err)
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}
