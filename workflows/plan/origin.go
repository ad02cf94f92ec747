package plan

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// schemePorts are the ports that URLs without one have.
var schemePorts = map[string]string{"http": "80", "https": "443"}

// Origin is scheme, host and port of a URL, or of a host or host:port, which stands for https; empty if it has none.
// Secrets are bound to it: two addresses with the same origin, and no others, are the same server.
func Origin(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		address = net.JoinHostPort(ip.String(), schemePorts["https"])
	}
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	host, usual := CanonicalHost(u.Hostname()), schemePorts[u.Scheme]
	port, err := strconv.ParseUint(cmp.Or(u.Port(), usual), 10, 16)
	if host == "" || usual == "" || err != nil {
		return ""
	}
	return u.Scheme + "://" + net.JoinHostPort(host, strconv.FormatUint(port, 10))
}

// CanonicalHost is the one spelling of a host.
func CanonicalHost(h string) string {
	if ip, err := netip.ParseAddr(h); err == nil {
		return ip.String()
	}
	return strings.ToLower(strings.TrimSuffix(h, "."))
}

// ShortOrigin is the origin of an address as settings write it: without https and a scheme's own port.
func ShortOrigin(address string) string {
	scheme, _, _ := strings.Cut(Origin(address), ":")
	return strings.TrimPrefix(strings.TrimSuffix(Origin(address), ":"+schemePorts[scheme]), "https://")
}
