package llm

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

const ociTenancy = "ocid1.tenancy.oc1..t"

// ociToken returns a token like those of OCI, with an expiry that clients read.
func ociToken() string {
	part := func(v object) string {
		raw, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	return part(object{"alg": "RS256"}) + "." + part(object{"exp": time.Now().Add(time.Hour).Unix(), "res_tenant": ociTenancy}) + ".c2ln"
}

func ociKeyPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(ociKey())})
}

// ociIdentity is a fake of an instance's metadata service, and of the service that issues tokens
// for the instance's certificate and a session key.
type ociIdentity struct {
	*server
	token   string
	session atomic.Pointer[rsa.PublicKey]
	// open is closed to let the metadata service respond.
	open chan struct{}
}

func newOCIIdentity(t *testing.T) *ociIdentity {
	t.Helper()
	subject := pkix.Name{CommonName: "ocid1.instance.oc1..i", OrganizationalUnit: []string{"opc-certtype:instance", "opc-tenant:" + ociTenancy}}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: subject, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &ociKey().PublicKey, ociKey())
	if err != nil {
		t.Fatal(err)
	}
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	s := &ociIdentity{token: ociToken(), open: make(chan struct{})}
	files := map[string]string{
		"/opc/v2/instance/region": "us-chicago-1", "/opc/v2/identity/cert.pem": certificate,
		"/opc/v2/identity/key.pem": string(ociKeyPEM()), "/opc/v2/identity/intermediate.pem": certificate,
	}
	s.server = serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-s.open
		if text, ok := files[r.URL.Path]; ok && r.Header.Get("Authorization") == "Bearer Oracle" {
			answer(200, text)(w, r)
			return
		}
		s.server.mu.Lock()
		body := s.bodies[len(s.bodies)-1]
		s.server.mu.Unlock()
		if err := s.federate(r, body); err != nil {
			answer(400, fmt.Sprintf(`{"code":"InvalidParameter","message":%q}`, err))(w, r)
			return
		}
		answer(200, fmt.Sprintf(`{"token":%q}`, s.token), "Content-Type", "application/json")(w, r)
	})
	return s
}

// federate stores the session key of a request signed by the instance's certificate.
func (s *ociIdentity) federate(r *http.Request, body string) error {
	var in struct {
		Certificate, PublicKey   string
		IntermediateCertificates []string
	}
	switch err := json.Unmarshal([]byte(body), &in); {
	case err != nil:
		return err
	case r.URL.Path != "/v1/x509" || in.Certificate == "" || len(in.IntermediateCertificates) != 1:
		return fmt.Errorf("%s with %s", r.URL.Path, body)
	case !strings.Contains(r.Header.Get("Authorization"), `keyId="`+ociTenancy+`/fed-x509-sha256/`):
		return fmt.Errorf("signed by %q", r.Header.Get("Authorization"))
	}
	der, err := base64.StdEncoding.DecodeString(in.PublicKey)
	if err != nil {
		return err
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return err
	}
	session, ok := key.(*rsa.PublicKey)
	if !ok {
		return fmt.Errorf("a key of type %T", key)
	}
	s.session.Store(session)
	return nil
}

// conformSignIn checks that each request has the key, or a signature in its place.
func conformSignIn(t *testing.T, b providerCase) string {
	e, m := b.start(t, textAnswer("ok"), nil)
	e.generate(t, m, &Call{}, hello())
	checkEqual(t, "key", e.lastRequest(t).key, testKey)
	if b.row.Protocol == wire.Converse {
		conformAWS(t, b)
		return "key, access keys"
	}
	if b.row.Protocol != wire.OCI {
		return "key"
	}
	m.signer = &signer{auth: AuthSecurityToken, file: ociConfig(t), profile: "TOKEN"}
	e.generate(t, m, &Call{}, hello())
	checkEqual(t, "key of a session", e.lastRequest(t).key, testKey)
	conformInstance(t, b)
	conformResource(t, b)
	return strings.Join(slices.Sorted(maps.Keys(authMethods)), ", ")
}

// conformInstance signs in as an instance principal. The vendor's SDK waits for the metadata service
// without a context: a cancelled call must not wait for it, and the next call uses its result.
func conformInstance(t *testing.T, b providerCase) {
	t.Helper()
	identity := newOCIIdentity(t)
	b.vendor = b.withIdentity(identity)
	e, m := b.start(t, textAnswer("ok"), nil)
	t.Setenv("OCI_METADATA_BASE_URL", identity.URL+"/opc/v2")
	t.Setenv("OCI_SDK_AUTH_CLIENT_REGION_URL", identity.URL)
	m.signer = &signer{auth: AuthInstancePrincipal}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, cancelledErr := generate(ctx, m, newCall(&Call{}, hello(), nil))
	m.firstByte = 50 * time.Millisecond
	_, slowErr := ask(t, m, &Call{})
	m.firstByte = time.Minute // the SDK generates a key
	close(identity.open)
	if !errors.Is(cancelledErr, context.DeadlineExceeded) {
		t.Errorf("cancelled call: %v", cancelledErr)
	}
	checkContains(t, failureOf(t, slowErr).Error(), "no byte within 50ms", "first_token_timeout")
	checkEqual(t, "requests", e.calls(), 0)
	e.generate(t, m, &Call{}, hello())
	checkEqual(t, "key of an instance", e.lastRequest(t).key, sessionKeyPrefix+identity.token)
}

// conformResource signs in as a resource principal, by OCI's environment variables.
func conformResource(t *testing.T, b providerCase) {
	t.Helper()
	e, m := b.start(t, textAnswer("ok"), nil)
	token := ociToken()
	t.Setenv("OCI_RESOURCE_PRINCIPAL_VERSION", "2.2")
	t.Setenv("OCI_RESOURCE_PRINCIPAL_RPST", token)
	t.Setenv("OCI_RESOURCE_PRINCIPAL_PRIVATE_PEM", string(ociKeyPEM()))
	t.Setenv("OCI_RESOURCE_PRINCIPAL_REGION", "us-chicago-1")
	m.signer = &signer{auth: AuthResourcePrincipal}
	e.generate(t, m, &Call{}, hello())
	checkEqual(t, "key of a resource", e.lastRequest(t).key, sessionKeyPrefix+token)

	t.Setenv("OCI_RESOURCE_PRINCIPAL_VERSION", "")
	m.signer = &signer{auth: AuthResourcePrincipal}
	_, err := ask(t, m, &Call{})
	f := failureOf(t, err)
	checkEqual(t, "class", f.Class, contract.ClassUnavailable)
	checkContains(t, f.Error(), "resource_principal", "run the worker where OCI gives it a principal")
}

// withIdentity returns the fake server of a case that verifies the session keys of identity.
func (b providerCase) withIdentity(identity *ociIdentity) vendor {
	if _, ok := b.vendor.(fakeOCICohere); ok {
		return fakeOCICohere{fakeOCI{identity}}
	}
	return fakeOCI{identity}
}
