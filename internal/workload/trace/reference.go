package trace

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// A row of somebody else's data set may point at things: a picture by its URL, or
// by a path. Nothing is fetched or opened here, but a server that is sent the row
// may do so in its own network, and a path would make a client that is less
// careful read a secret. Addresses of files, of this machine, of private
// networks and of cloud metadata are therefore refused.

const (
	aFile   = "is a file of this machine; files that a data set names are not read"
	aPath   = "is a path to a file; files that a data set names are not read"
	private = "points at this machine, a private network or the metadata of the cloud"
)

// checkURL returns why a reference may not be sent, empty when it may.
func checkURL(ref string) string {
	ref = bare(ref)
	if ref == "" {
		return "is empty"
	}
	if hasScheme(ref, "data") || isBytes(ref) {
		return ""
	}
	u, err := url.Parse(ref)
	if err != nil {
		return "is not a URL"
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		return checkHost(u.Hostname())
	case "":
		return aPath
	case "file":
		return aFile
	}
	return "has scheme " + shown(u.Scheme) + ", want data, http or https"
}

// bare takes off and out what programs that read URLs drop: line ends and tabs
// anywhere, spaces and marks that nobody sees at the ends.
func bare(s string) string {
	s = strings.TrimFunc(s, func(c rune) bool {
		return unicode.IsSpace(c) || unicode.IsControl(c) || unicode.Is(unicode.Cf, c)
	})
	if strings.ContainsAny(s, "\t\r\n") {
		s = strings.NewReplacer("\t", "", "\r", "", "\n", "").Replace(s)
	}
	return s
}

func hasScheme(s, scheme string) bool {
	return len(s) > len(scheme) && s[len(scheme)] == ':' && strings.EqualFold(s[:len(scheme)], scheme)
}

// pathMax is the longest path that systems take; what is longer is no path.
const pathMax = 4096

// beginnings of the kinds of files that rows hold as bare base64.
var beginnings64 = [][]byte{
	[]byte("\x89PNG"), []byte("\xff\xd8\xff"), []byte("GIF8"), []byte("RIFF"), []byte("BM"), []byte("II*\x00"), []byte("MM\x00*"),
	[]byte("ID3"), []byte("OggS"), []byte("fLaC"), []byte("%PDF"), []byte("\x1aE\xdf\xa3"),
}

// isBytes says whether s is a file itself in base64 and no path, which may have the
// letters of base64 too: it begins as pictures, sounds, films and PDF do, or is
// longer than a path can be.
func isBytes(s string) bool {
	if len(s) < 64 {
		return false
	}
	head, err := base64.StdEncoding.DecodeString(s[:16])
	if err != nil {
		return false
	}
	known := len(s) > pathMax || bytes.Equal(head[4:8], []byte("ftyp"))
	for _, b := range beginnings64 {
		known = known || bytes.HasPrefix(head, b)
	}
	if !known {
		return false
	}
	_, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	return err == nil
}

// checkHost returns why a host may not be asked, empty when it may. Names are not
// looked up.
func checkHost(host string) string {
	host = mapped(host)
	if host == "" {
		return "has no host"
	}
	if ip, ok := hostIP(host); ok {
		if isLocal(ip) {
			return private
		}
		return ""
	}
	for _, name := range []string{"localhost", "localhost6", "ip6-localhost", "ip6-loopback", "metadata", "metadata.goog", "instance-data"} {
		if host == name {
			return "points at this machine or at the metadata of the cloud"
		}
	}
	for _, end := range []string{".localhost", ".local", ".internal", ".localdomain"} {
		if strings.HasSuffix(host, end) {
			return "points into a private network"
		}
	}
	return ""
}

// mapped is a host as resolvers see it: digits and letters of other shapes are
// plain ones, ideographic full stops are points, and what nobody sees is gone
// (Unicode TR 46).
func mapped(host string) string {
	host = strings.Map(func(c rune) rune {
		switch {
		case c == '\u3002' || c == '\uff0e' || c == '\uff61':
			return '.'
		case unicode.Is(unicode.Cf, c) || unicode.Is(unicode.Variation_Selector, c) || c == '\u034f':
			return -1
		}
		return c
	}, host)
	// What NFKC makes of a character may hold one of those again.
	host = strings.ReplaceAll(norm.NFKC.String(host), "\u3002", ".")
	return strings.Trim(strings.ToLower(host), ".")
}

// isLocal says whether an address is of this machine, of a private network or of
// the metadata of a cloud, by itself or by the IPv4 address inside it.
func isLocal(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsUnspecified() || ip.IsMulticast() {
		return true
	}
	for _, p := range locals {
		if p.Contains(ip) {
			return true
		}
	}
	if !ip.Is6() {
		return false
	}
	b := ip.As16()
	four := func(i int) bool { return isLocal(netip.AddrFrom4([4]byte(b[i : i+4]))) }
	for _, e := range embedded {
		if e.in.Contains(ip) && four(e.at) {
			return true
		}
	}
	if e := [4]byte(b[8:12]); e == [4]byte{0, 0, 0x5e, 0xfe} || e == [4]byte{2, 0, 0x5e, 0xfe} { // ISATAP, RFC 5214
		return four(12)
	}
	if teredo.Contains(ip) { // the client's address has all bits turned
		for i := 12; i < 16; i++ {
			b[i] ^= 0xff
		}
		return four(12)
	}
	return false
}

// locals are further ranges that lead nowhere public: this network, the carriers'
// (in which one cloud has its metadata) and the protocols' (another's), one cloud's
// host agent, what is reserved, sites' own IPv6 and a site's own translation.
var locals = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("64:ff9b:1::/48"),
}

var teredo = netip.MustParsePrefix("2001::/32")

// embedded are ranges of IPv6 addresses that lead to an IPv4 address, and where it
// stands: NAT64 (RFC 6052), 6to4 (RFC 3056), Teredo's server (RFC 4380), IPv4-compatible
// (RFC 4291) and translated ones (RFC 2765).
var embedded = []struct {
	in netip.Prefix
	at int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
	{teredo, 4},
	{netip.MustParsePrefix("::/96"), 12},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12},
}

// hostIP reads the address in a host's name, in the odd forms too that resolvers
// accept: one number, octal and hexadecimal parts, fewer than four parts.
func hostIP(host string) (netip.Addr, bool) {
	if host, _, _ = strings.Cut(host, "%"); strings.Contains(host, ":") {
		ip, err := netip.ParseAddr(host)
		return ip, err == nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip, true
	}
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var v uint64
	for i, p := range parts {
		base, digits := 10, p
		switch {
		case strings.HasPrefix(p, "0x"):
			base, digits = 16, p[2:]
		case len(p) > 1 && p[0] == '0':
			base, digits = 8, p[1:]
		}
		if digits == "" {
			return netip.Addr{}, false
		}
		var n uint64
		for _, c := range digits {
			d := strings.IndexRune("0123456789abcdef", c)
			if d < 0 || d >= base {
				return netip.Addr{}, false
			}
			if n = n*uint64(base) + uint64(d); n > 1<<32 {
				return netip.Addr{}, false
			}
		}
		room := uint64(1) << 8
		if i == len(parts)-1 {
			room = 1 << (8 * (5 - len(parts)))
		}
		if n >= room {
			return netip.Addr{}, false
		}
		if i == len(parts)-1 {
			v = v<<(8*(5-len(parts))) | n
		} else {
			v = v<<8 | n
		}
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true
}

// refuse checks a reference of a row.
func (r *Reader) refuse(line int, field, ref string) error {
	why := checkURL(ref)
	if why == "" {
		return nil
	}
	return r.refused(line, field, ref, why)
}

func (r *Reader) refused(line int, field, ref, why string) error {
	return r.bad(line, field, "refused_reference", fmt.Sprintf("%s %s: refused", shown(ref), why))
}

// references goes through a value that servers are sent as it is, or of which it is
// not known what it is, and refuses what points at files, at this machine, at private
// networks and at metadata, whatever the field is called. What people and models say
// is not looked at. field is the name of the value, empty for a row.
func (r *Reader) references(line int, field string, raw json.RawMessage) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	v, err := tree(dec)
	if err != nil {
		return r.bad(line, field, "json", err.Error())
	}
	w := walk{points: points(field)}
	if media(field) {
		w.media = true
	}
	if f, ref, why := w.look(field, field, v); why != "" {
		return r.refused(line, f, ref, why)
	}
	return nil
}

// member is a field of an object, whose names may be there twice: which of them a
// server takes is not known.
type member struct {
	name  string
	value any
}

// tree reads a value: a string, []member, []any, or nil for all that is no text.
// The depth is bounded by the caller's, who has decoded the row before.
func tree(dec *json.Decoder) (any, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		var out []member
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := tree(dec)
			if err != nil {
				return nil, err
			}
			out = append(out, member{key.(string), v})
		}
		_, err := dec.Token()
		return out, err
	case json.Delim('['):
		var out []any
		for dec.More() {
			v, err := tree(dec)
			if err != nil {
				return nil, err
			}
			if v != nil {
				out = append(out, v)
			}
		}
		_, err := dec.Token()
		return out, err
	}
	if s, ok := tok.(string); ok {
		return s, nil
	}
	return nil, nil
}

// walk is where a look into a value has come to.
type walk struct {
	points bool // a field on the way here names files or addresses
	media  bool // this very field is a picture, a sound or a film
	schema bool // inside a JSON schema, whose defaults and examples nobody follows
}

// spoken are fields that hold what people and models say, or what is no reference
// whatever it looks like.
var spoken = []string{
	"text", "content", "prompt", "input", "suffix", "system", "instructions", "description", "output", "arguments", "reasoning", "reasoning_content", "thinking",
	"refusal", "signature", "stop", "stop_sequences", "bad_words", "pattern", "regex", "grammar", "guided_regex", "guided_grammar", "chat_template", "query", "title", "name", "model", "user", "id",
}

// schemas are fields that hold JSON schemas.
var schemas = []string{"parameters", "input_schema", "json_schema", "schema", "guided_json", "structured_outputs"}

// look returns the field and the text of the first reference in v that is refused,
// and why. path is the field's whole name, name the last part of it.
func (w walk) look(path, name string, v any) (field, ref, why string) {
	switch v := v.(type) {
	case string:
		return path, v, w.judge(name, v)
	case []any:
		for _, e := range v {
			if f, ref, why := w.look(path, name, e); why != "" {
				return f, ref, why
			}
		}
	case []member:
		call := false // of a tool: its input is what the model said
		for _, m := range v {
			call = call || m.name == "type" && (m.value == "tool_use" || m.value == "server_tool_use" || m.value == "mcp_tool_use")
		}
		for _, m := range v {
			if call && m.name == "input" {
				continue
			}
			in := w
			in.points, in.media = w.points || points(m.name), media(m.name)
			in.schema = w.schema || slices.Contains(schemas, m.name)
			at := m.name
			if path != "" {
				at = path + "." + m.name
			}
			if f, ref, why := in.look(at, m.name, m.value); why != "" {
				return f, ref, why
			}
		}
	}
	return "", "", ""
}

// judge says why a text may not be sent, empty when it may.
func (w walk) judge(name, s string) string {
	if w.schema && !strings.HasPrefix(name, "$") || !w.points && slices.Contains(spoken, name) {
		return ""
	}
	ref := bare(s)
	if ref == "" || hasScheme(ref, "data") || isBytes(ref) {
		return ""
	}
	if w.media && !w.schema {
		return checkURL(ref)
	}
	if hasScheme(ref, "file") && (w.points || strings.HasPrefix(ref[5:], "/")) {
		return aFile
	}
	if scheme, rest, ok := strings.Cut(ref, "://"); ok && rest != "" && isScheme(scheme) {
		if !w.points && strings.ContainsFunc(ref, unicode.IsSpace) {
			return "" // a sentence
		}
		return checkURL(ref)
	}
	if w.points && !w.schema && len(ref) <= pathMax && isPath(ref) {
		return aPath
	}
	return ""
}

func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if (c < 'a' || c > 'z') && (i == 0 || !strings.ContainsRune("0123456789+-.", rune(s[i]))) {
			return false
		}
	}
	return s != ""
}

// isPath says whether s is written as a path from a root, from home or from here.
func isPath(s string) bool {
	for _, p := range []string{"/", "~", "./", "../", `\\`, `.\`, `..\`} {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return len(s) > 2 && s[1] == ':' && (s[2] == '\\' || s[2] == '/') && isScheme(s[:1])
}

// pointers are the words in names of fields that hold addresses, files or their
// bytes; pictures those of media.
var (
	pointers = strings.Fields("url urls uri uris href link src source sources path paths file files filename filenames dir directory folder data bytes document documents doc pdf attachment attachments lora adapter")
	pictures = strings.Fields("image images img picture pictures photo photos audio audios sound video videos pdf")
)

func points(name string) bool {
	for _, w := range words(name) {
		if slices.Contains(pointers, w) || slices.Contains(pictures, w) || strings.HasSuffix(w, "url") || strings.HasSuffix(w, "uri") || strings.HasSuffix(w, "path") {
			return true
		}
	}
	return false
}

// media says whether a field of this name is a picture, sound or film itself: no
// word of it says anything else, as that of a size or a detail would.
func media(name string) bool {
	found := false
	for _, w := range words(name) {
		switch {
		case slices.Contains(pictures, w):
			found = true
		case w != "input" && !slices.Contains(pointers, w):
			return false
		}
	}
	return found
}

// words are those that a field's name is made of, in small letters.
func words(name string) []string {
	var out []string
	start := 0
	for i := 0; i <= len(name); i++ {
		end := i == len(name)
		sep := !end && (name[i] == '_' || name[i] == '-' || name[i] == '.' || name[i] == ' ')
		camel := !end && i > start && name[i] >= 'A' && name[i] <= 'Z' && name[i-1] >= 'a' && name[i-1] <= 'z'
		if end || sep || camel {
			if i > start {
				out = append(out, strings.ToLower(name[start:i]))
			}
			start = i
			if sep {
				start++
			}
		}
	}
	return out
}
