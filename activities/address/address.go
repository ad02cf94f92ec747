// Package address implements the policy for URLs supplied by flows and runs: they may reach public addresses, and others that an
// operator allows.
package address

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"weft/workflows/plan"
)

// Rule is the policy for one URL that a flow or a run supplies.
type Rule struct {
	allow Allowed
	// Host has no port and is in lower case.
	Host string
	at   *url.URL
}

// Allowed are the addresses that an operator allows besides the public internet.
type Allowed struct {
	// Private allows private, loopback and link-local addresses, Loopback only loopback addresses.
	Private, Loopback bool
	// Hosts are allowed whatever they resolve to: a host for any scheme and port, or host:port for any scheme.
	Hosts []string
}

// loopback is the prefix of the reasons for which Allowed.Loopback makes an exception.
const loopback = "a loopback"

// RefusedError is the error of a URL that the policy does not allow.
type RefusedError struct {
	Host, address, reason string
}

// Loopback reports whether the address is a loopback address.
func (r *RefusedError) Loopback() bool { return strings.HasPrefix(r.reason, loopback) }

// Error names the host, its address and the reason.
func (r *RefusedError) Error() string {
	if r.address == "" || r.address == r.Host {
		return fmt.Sprintf("%s is %s", r.Host, r.reason)
	}
	return fmt.Sprintf("%s is at %s, %s", r.Host, r.address, r.reason)
}

// New returns the rule for a URL.
func New(allow Allowed, raw string) Rule {
	u, err := url.Parse(raw)
	if err != nil {
		return Rule{allow: allow, at: &url.URL{}}
	}
	return Rule{allow: allow, Host: plan.CanonicalHost(u.Hostname()), at: u}
}

// containsHost reports whether a list, as in [Allowed.Hosts], contains the host of u.
func containsHost(list []string, u *url.URL) bool {
	at := plan.Origin(u.String())
	return slices.ContainsFunc(list, func(h string) bool {
		return plan.CanonicalHost(strings.Trim(h, "[]")) == plan.CanonicalHost(u.Hostname()) || at != "" && plan.Origin(u.Scheme+"://"+h) == at
	})
}

// allowed reports whether the operator allows this host whatever it resolves to.
func (r Rule) allowed() bool {
	return r.allow.Private || containsHost(r.allow.Hosts, r.at)
}

// CheckName checks the host without name resolution. It returns nil if the host is not refused by its name alone.
func (r Rule) CheckName() *RefusedError {
	if r.allowed() {
		return nil
	}
	if named := r.Host == "localhost" || strings.HasSuffix(r.Host, ".localhost"); named {
		if r.allow.Loopback {
			return nil // Control checks the address that is dialled
		}
		return &RefusedError{Host: r.Host, reason: loopback + " name"}
	}
	if ip, err := netip.ParseAddr(r.Host); err == nil {
		return r.checkAddr(ip)
	}
	if ip, ok := legacyIPv4(r.Host); ok {
		return r.checkAddr(ip)
	}
	return nil
}

func (r Rule) checkAddr(ip netip.Addr) *RefusedError {
	reason := Special(ip)
	if strings.HasPrefix(reason, loopback) && r.allow.Loopback {
		return nil
	}
	if reason != "" {
		return &RefusedError{Host: r.Host, address: ip.String(), reason: reason}
	}
	return nil
}

// Control is a [net.Dialer.Control]: it checks the address that is dialled, after name resolution.
func (r Rule) Control(_, address string, _ syscall.RawConn) error {
	if r.allowed() {
		return nil
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &RefusedError{Host: r.Host, address: address, reason: "not an internet address"}
	}
	if no := r.checkAddr(ap.Addr()); no != nil {
		return no
	}
	return nil
}

// ranges are outside the public internet. The first match determines the reason of a refusal.
var ranges = []struct {
	reason string
	list   []netip.Prefix
}{
	{"the cloud's metadata address", prefixes("169.254.169.254/32 168.63.129.16/32 100.100.100.200/32 fd00:ec2::254/128")},
	{"an unspecified address", prefixes("0.0.0.0/8 ::/128")},
	{loopback + " address", prefixes("127.0.0.0/8 ::1/128")},
	// 64:ff9b:1::/48 is a network's own NAT64.
	{"a private address", prefixes("10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 198.18.0.0/15 fc00::/7 fec0::/10 64:ff9b:1::/48")},
	{"a link-local address", prefixes("169.254.0.0/16 fe80::/10 224.0.0.0/24 ff02::/16")},
	{"a multicast address", prefixes("224.0.0.0/4 ff00::/8")},
	// 2001::/23 is Teredo and other protocols.
	{"a reserved address", prefixes("192.0.0.0/24 240.0.0.0/4 192.0.2.0/24 192.88.99.0/24 198.51.100.0/24 203.0.113.0/24 100::/64 " +
		"2001::/23 2001:db8::/32 3fff::/20 5f00::/16")},
}

func prefixes(list string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range strings.Fields(list) {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// Special describes an address outside the public internet, such as "a private address"; it returns "" for a public one.
func Special(ip netip.Addr) string {
	ip = ip.Unmap().WithZone("")
	for _, r := range ranges {
		if slices.ContainsFunc(r.list, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			return r.reason
		}
	}
	if inner, ok := embedded(ip); ok {
		return Special(inner)
	}
	return ""
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	translated = netip.MustParsePrefix("::ffff:0:0:0/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	oldCompat  = netip.MustParsePrefix("::/96")
)

// isatap precedes an IPv4 address in an interface identifier; one bit of the first byte marks a public
// address.
var isatap = [3]byte{0x00, 0x5e, 0xfe}

// embedded returns the IPv4 address within an IPv6 address of a transition mechanism.
func embedded(ip netip.Addr) (netip.Addr, bool) {
	if !ip.Is6() {
		return netip.Addr{}, false
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip), translated.Contains(ip), oldCompat.Contains(ip),
		b[8]&^0x02 == 0 && [3]byte(b[9:12]) == isatap:
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

// legacyIPv4 parses an IPv4 address as inet_aton does, because a resolver may accept it: one to four numbers,
// decimal, octal (017) or hexadecimal (0xf), the last of which fills the remaining bytes.
func legacyIPv4(host string) (netip.Addr, bool) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var all uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 32)
		most := uint64(0xff)
		if i == len(parts)-1 {
			most = 1<<(8*(5-len(parts))) - 1
		}
		if err != nil || n > most || strings.ContainsAny(part, "_obOB+") {
			return netip.Addr{}, false
		}
		if i == len(parts)-1 {
			all |= n
		} else {
			all |= n << (8 * (3 - i))
		}
	}
	return netip.AddrFrom4([4]byte{byte(all >> 24), byte(all >> 16), byte(all >> 8), byte(all)}), true
}
