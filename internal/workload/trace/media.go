package trace

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"plimsoll/internal/message"
)

// A row of somebody else's data set may point at things: a picture by its URL, or
// by a path. Nothing is fetched or opened here, but a server that is sent the row
// may do so in its own network, and a path would make a client that is less
// careful read a secret. Addresses of files, of this machine, of private
// networks and of cloud metadata are therefore refused.

// checkURL returns why a reference may not be sent, empty when it may.
func checkURL(ref string) string {
	if strings.HasPrefix(ref, "data:") {
		return ""
	}
	u, err := url.Parse(strings.TrimSpace(ref))
	if err != nil {
		return "is not a URL"
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
	case "":
		if len(ref) >= 64 {
			if _, err := base64.StdEncoding.DecodeString(ref); err == nil {
				return "" // the bytes themselves
			}
		}
		return "is a path to a file; files that a data set names are not read"
	case "file":
		return "is a file of this machine; files that a data set names are not read"
	default:
		return "has scheme " + shown(u.Scheme) + ", want data, http or https"
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if host == "" {
		return "has no host"
	}
	for _, name := range []string{"localhost", "metadata", "metadata.google.internal", "instance-data"} {
		if host == name {
			return "points at this machine or at the metadata of the cloud"
		}
	}
	for _, end := range []string{".localhost", ".local", ".internal", ".localdomain"} {
		if strings.HasSuffix(host, end) {
			return "points into a private network"
		}
	}
	if ip, ok := hostIP(host); ok {
		ip = ip.Unmap()
		if ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsUnspecified() || ip.IsMulticast() || inSharedRange(ip) {
			return "points at this machine, a private network or the metadata of the cloud"
		}
	}
	return ""
}

// inSharedRange says whether ip is of the carrier's range 100.64.0.0/10, in which
// one cloud has its metadata.
func inSharedRange(ip netip.Addr) bool {
	return ip.Is4() && ip.As4()[0] == 100 && ip.As4()[1]&0xc0 == 64
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
	return r.bad(line, field, "refused_reference", fmt.Sprintf("%s %s: refused", shown(ref), why))
}

// contentPart is one piece of a message's content.
type contentPart struct {
	Type       string          `json:"type"`
	Text       string          `json:"text"`
	Content    json.RawMessage `json:"content"`
	ImageURL   json.RawMessage `json:"image_url"`
	InputImage json.RawMessage `json:"input_image"`
	VideoURL   json.RawMessage `json:"video_url"`
	AudioURL   json.RawMessage `json:"audio_url"`
	File       json.RawMessage `json:"file"`
	FileURL    json.RawMessage `json:"file_url"`
	Source     json.RawMessage `json:"source"`
	Image      json.RawMessage `json:"image"`
	URL        json.RawMessage `json:"url"`
}

// reference returns the address in a field that holds one, as a text or as an
// object with a url.
func reference(b json.RawMessage) (string, bool) {
	if len(b) == 0 || string(b) == "null" {
		return "", false
	}
	var s string
	if json.Unmarshal(b, &s) == nil {
		return s, true
	}
	var o struct {
		URL      *string `json:"url"`
		FileURI  *string `json:"file_uri"`
		FileData *string `json:"file_data"`
		Path     *string `json:"path"`
	}
	if json.Unmarshal(b, &o) != nil {
		return "", false
	}
	for _, p := range []*string{o.URL, o.FileURI, o.Path, o.FileData} {
		if p != nil {
			return *p, true
		}
	}
	return "", false
}

// content reads what a message says: its text, and how many pictures come with
// it.
func (r *Reader) content(line int, b json.RawMessage) (text string, images int, err error) {
	if len(b) == 0 || string(b) == "null" {
		return "", 0, nil
	}
	if json.Unmarshal(b, &text) == nil {
		return text, 0, nil
	}
	var parts []contentPart
	if err := json.Unmarshal(b, &parts); err != nil {
		return "", 0, r.bad(line, "content", "type", "is neither a text nor a list of parts")
	}
	var sb strings.Builder
	for i := range parts {
		p := &parts[i]
		for _, f := range []struct {
			name  string
			value json.RawMessage
			image bool
		}{
			{"image_url", p.ImageURL, true},
			{"input_image", p.InputImage, true},
			{"image", p.Image, true},
			{"video_url", p.VideoURL, false},
			{"audio_url", p.AudioURL, false},
			{"file", p.File, false},
			{"file_url", p.FileURL, false},
			{"source", p.Source, p.Type == "image"},
			{"url", p.URL, false},
		} {
			ref, ok := reference(f.value)
			if f.image && len(f.value) > 0 {
				images++
			}
			if ok {
				if err := r.refuse(line, f.name, ref); err != nil {
					return "", 0, err
				}
			}
		}
		if p.Text != "" {
			if sb.Len() > 0 {
				sb.WriteByte('\n')
			}
			sb.WriteString(p.Text)
		}
	}
	return sb.String(), images, nil
}

// chatMessage is one message in the form of the chat APIs.
type chatMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
	// Parts is how one API spells the content.
	Parts json.RawMessage `json:"parts"`
}

// roleOf returns the role of a name, in any of the styles that data sets have.
func roleOf(name string) (message.Role, bool) {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "user", "human", "prompter", "input":
		return message.User, true
	case "assistant", "gpt", "chatgpt", "bing", "bard", "model", "ai", "bot", "output", "chatbot":
		return message.Assistant, true
	case "system", "developer":
		return message.System, true
	case "tool", "function", "function_response", "observation":
		return message.Tool, true
	}
	return message.User, false
}

// messages reads a list of messages into rec.
func (r *Reader) messages(rec *Record, b json.RawMessage) error {
	var list []chatMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return r.bad(rec.Line, "messages", "type", "is not a list of messages with role and content")
	}
	if len(list) == 0 {
		return r.bad(rec.Line, "messages", "missing", "is empty")
	}
	for i := range list {
		m := &list[i]
		role, ok := roleOf(m.Role)
		if !ok {
			return r.bad(rec.Line, "messages.role", "role", shown(m.Role)+" is no role, want system, user, assistant or tool")
		}
		body := m.Content
		if len(body) == 0 {
			body = m.Parts
		}
		text, images, err := r.content(rec.Line, body)
		if err != nil {
			return err
		}
		if text == "" && len(m.ToolCalls) > 0 && string(m.ToolCalls) != "null" {
			text = string(m.ToolCalls)
		}
		rec.Images += images
		rec.Messages = append(rec.Messages, Message{Role: role, Text: text})
	}
	return nil
}
