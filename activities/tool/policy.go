package tool

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// rule is the policy for one URL that a flow or a run supplies.
type rule struct {
	settings *Settings
	host     string // without port, lower case
	at       *url.URL
}

// loopback begins the reason of every refusal that allow_loopback lifts.
const loopback = "a loopback"

// refused says why a URL is not called.
type refused struct {
	host, address, reason string
}

func (r *refused) Error() string {
	if r.address == "" || r.address == r.host {
		return fmt.Sprintf("%s is %s", r.host, r.reason)
	}
	return fmt.Sprintf("%s is at %s, %s", r.host, r.address, r.reason)
}

func (r *refused) failure(id string) *contract.Failure {
	settings := []string{fmt.Sprintf("%s: [%q]", SettingAllowHosts, r.host)}
	if strings.HasPrefix(r.reason, loopback) {
		settings = append(settings, SettingAllowLoopback+": true (the worker's own machine)")
	}
	settings = append(settings, SettingAllowPrivate+": true (all such addresses)")
	return connectionFailure(fmt.Sprintf("connection %q: %s; a url that a flow or a run supplies may not lead there", id, r.Error()), allowRemedy(settings...))
}

func newRule(s *Settings, raw string) rule {
	u, err := url.Parse(raw)
	if err != nil {
		return rule{settings: s, at: &url.URL{}}
	}
	return rule{settings: s, host: plan.CanonicalHost(u.Hostname()), at: u}
}

// containsHost reports whether a list of hosts, of any scheme and port, or host:port, of any scheme, contains an address's.
func containsHost(list []string, u *url.URL) bool {
	at := plan.Origin(u.String())
	return slices.ContainsFunc(list, func(h string) bool {
		return plan.CanonicalHost(strings.Trim(h, "[]")) == plan.CanonicalHost(u.Hostname()) || at != "" && plan.Origin(u.Scheme+"://"+h) == at
	})
}

// allowed reports whether the operator lifted the policy for this host.
func (r rule) allowed() bool {
	return r.settings.AllowPrivate || containsHost(r.settings.AllowHosts, r.at)
}

// checkName refuses what the name alone gives away, without asking a name server.
func (r rule) checkName() *refused {
	if r.allowed() {
		return nil
	}
	if named := r.host == "localhost" || strings.HasSuffix(r.host, ".localhost"); named {
		if r.settings.AllowLoopback {
			return nil // the address that is dialled is looked at, too
		}
		return &refused{host: r.host, reason: loopback + " name"}
	}
	if ip, err := netip.ParseAddr(r.host); err == nil {
		return r.checkAddr(ip)
	}
	if ip, ok := legacyIPv4(r.host); ok {
		return r.checkAddr(ip)
	}
	return nil
}

func (r rule) checkAddr(ip netip.Addr) *refused {
	reason := special(ip)
	if strings.HasPrefix(reason, loopback) && r.settings.AllowLoopback {
		return nil
	}
	if reason != "" {
		return &refused{host: r.host, address: ip.String(), reason: reason}
	}
	return nil
}

// control is a [net.Dialer]'s: it checks the address that is dialled, after name resolution.
func (r rule) control(_, address string, _ syscall.RawConn) error {
	if r.allowed() {
		return nil
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &refused{host: r.host, address: address, reason: "not an internet address"}
	}
	if no := r.checkAddr(ap.Addr()); no != nil {
		return no
	}
	return nil
}

// ranges are not the public internet, by the reason that refusals give; the first one holds.
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

// special says what an address is if it is not one of the public internet.
func special(ip netip.Addr) string {
	ip = ip.Unmap().WithZone("")
	for _, r := range ranges {
		if slices.ContainsFunc(r.list, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			return r.reason
		}
	}
	if inner, ok := embedded(ip); ok {
		return special(inner)
	}
	return ""
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	translated = netip.MustParsePrefix("::ffff:0:0:0/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	oldCompat  = netip.MustParsePrefix("::/96")
)

// isatap precedes an IPv4 address in an interface identifier; one bit of the first byte reports whether it is
// public.
var isatap = [3]byte{0x00, 0x5e, 0xfe}

// embedded is the IPv4 address that an IPv6 address of a transition mechanism leads to.
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

// legacyIPv4 parses an IPv4 address as C libraries do: one to four numbers, decimal, octal (017) or
// hexadecimal (0xf), of which the last has the remaining bytes. A resolver may accept it.
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

// Control is a [net.Dialer]'s: it refuses private, loopback and link-local addresses unless they are allowed.
// Its error has a method Forbidden with the reason.
func Control(allowPrivate bool, allowHosts []string, address string) func(network, address string, c syscall.RawConn) error {
	return newRule(&Settings{AllowPrivate: allowPrivate, AllowHosts: allowHosts}, address).control
}

// Forbidden says why an address is not called.
func (r *refused) Forbidden() string { return r.Error() }

// Refused lists what the settings do not allow of a flow's command, and the settings that would. Arguments are not looked at.
func (s *Settings) Refused(c Connection) (what, settings []string) {
	add := func(text, setting, value string) {
		what = append(what, text)
		settings = append(settings, fmt.Sprintf("%s: [%q]", setting, value))
	}
	has := func(list []string, value string) bool {
		return slices.Contains(list, value) || slices.Contains(list, "*")
	}
	if !has(s.AllowCommands, c.Command) {
		add(fmt.Sprintf("the command %q started", c.Command), SettingAllowCommand, c.Command)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if !has(s.AllowEnv, name) {
			add(fmt.Sprintf("the variable %s set for the command %q", name, c.Command), SettingAllowEnv, name)
		}
	}
	if c.Dir != "" && !slices.ContainsFunc(s.AllowDirs, func(dir string) bool { return isWithin(realPath(dir), realPath(c.Dir)) }) {
		add(fmt.Sprintf("the command %q started in %q", c.Command, c.Dir), SettingAllowDirs, c.Dir)
	}
	return what, settings
}

// realPath is a path without links and dots, as far as it is there.
func realPath(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return filepath.Clean(path)
}

// isWithin reports whether a path is a folder or in it.
func isWithin(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// checkCommandAllowed asks whether the operator, or the worker's user, has allowed a flow's command.
func (t *Tools) checkCommandAllowed(c plan.Connection) error {
	conn := supplied(c)
	if conn.Dir != "" && (!filepath.IsAbs(conn.Dir) || strings.ContainsRune(c.Command, filepath.Separator) && !filepath.IsAbs(c.Command)) {
		return connectionFailure(fmt.Sprintf("connection %q: the flow wants the command %q started in %q", c.ID, c.Command, conn.Dir), "write absolute paths, or a command that is found in PATH")
	}
	what, settings := t.settings.Refused(conn)
	if len(what) == 0 {
		return nil
	}
	remedy := fmt.Sprintf("to allow it set in weft.yaml: %s, or configure %s.%s with the command", strings.Join(settings, " and "), SettingConnections, c.ID)
	if own := t.settings.AllowCommand; own != nil {
		if own(conn) {
			return nil
		}
		remedy += "; on your own machine start the run with: starter -dev -allow-commands"
	}
	return connectionFailure(fmt.Sprintf("connection %q: the flow wants %s, which the operator has not allowed", c.ID, strings.Join(what, " and ")), remedy)
}
