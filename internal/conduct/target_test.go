package conduct

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"plimsoll/internal/dialect"
	"plimsoll/internal/scenario"
)

func TestEndpoint(t *testing.T) {
	f := func(raw string, api dialect.API, want string) {
		t.Helper()
		got, err := Endpoint(raw, api)
		if err != nil || got != want {
			t.Errorf("Endpoint(%q, %s) = %q, %v; want %q", raw, api, got, err, want)
		}
	}
	chat, compl := dialect.OpenAIChat, dialect.OpenAICompletions
	f("http://h:8000", chat, "http://h:8000/v1/chat/completions")
	f("http://h:8000/", compl, "http://h:8000/v1/completions")
	f("http://h:8000/v1", chat, "http://h:8000/v1/chat/completions")
	f("http://h:8000/v1/", chat, "http://h:8000/v1/chat/completions")
	f("http://h/openai/v3", chat, "http://h/openai/v3/chat/completions")
	f("http://h/openai", compl, "http://h/openai/v1/completions")
	f("http://h/v1/chat/completions", chat, "http://h/v1/chat/completions")
	f("http://h/v1/completions", compl, "http://h/v1/completions")
	f("https://h/x/chat/completions?api-version=1", chat, "https://h/x/chat/completions?api-version=1")
	f("http://h/v1?api-version=1", chat, "http://h/v1/chat/completions?api-version=1")
	f("http://[::1]:8000", chat, "http://[::1]:8000/v1/chat/completions")

	bad := func(raw string, api dialect.API, want string) {
		t.Helper()
		got, err := Endpoint(raw, api)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Endpoint(%q, %s) = %q, %v; want an error with %q", raw, api, got, err, want)
		}
	}
	bad("localhost:8000", chat, "want http://HOST")
	bad("ftp://h", chat, "want http://HOST")
	bad("http://", chat, "no host")
	bad("http://:80", chat, "no host")
	bad("http://u:p@h", chat, "api-key-env")
	bad("http://h/#x", chat, "fragment")
	bad("http://h/%zz", chat, "invalid URL escape")
	bad("http://h/v1/completions", chat, "set api to openai.completions")
	bad("http://h/v1/chat/completions", compl, "set api to openai.chat")
	bad("http://h", "nonsense", `no path is known for api "nonsense"`)
}

func TestBase(t *testing.T) {
	for raw, want := range map[string]string{
		"http://h":                        "http://h",
		"http://h/":                       "http://h",
		"http://h/v1/":                    "http://h",
		"http://h/a/v1":                   "http://h/a",
		"http://h/a/v1/chat/completions/": "http://h/a",
	} {
		if got, err := Base(raw); err != nil || got != want {
			t.Errorf("Base(%q) = %q, %v; want %q", raw, got, err, want)
		}
	}
}

// TestEndpointNeverLeaks: no error about a URL repeats a password in it.
func TestEndpointNeverLeaks(t *testing.T) {
	for _, raw := range []string{
		"http://u:geheim@h", "https://u:geheim@h/v1", "h?key=geheim", "http:///?key=geheim", "http://h/%zz?key=geheim",
		"http://h/v1/chat/completions?key=geheim", "http://h?key=geheim#x",
	} {
		if _, err := Endpoint(raw, dialect.OpenAICompletions); err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("Endpoint(%q): %v", raw, err)
		}
	}
}

func TestAccess(t *testing.T) {
	lookup := func(name string) (string, bool) {
		v, ok := map[string]string{"KEY": "s3cret\n", "EMPTY": "", "BAD": "a\x00b"}[name]
		return v, ok
	}
	none := func(string) ([]byte, error) { return nil, fs.ErrNotExist }
	a, err := NewAccess(&scenario.Target{APIKeyEnv: "KEY", Header: map[string]string{"X-Team": "ops"}}, lookup, none)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Header.Get("Authorization"); got != "Bearer s3cret" {
		t.Errorf("Authorization = %q", got)
	}
	if got := a.Header.Get("x-team"); got != "ops" {
		t.Errorf("X-Team = %q", got)
	}
	f := func(tg scenario.Target, want string) {
		t.Helper()
		_, err := NewAccess(&tg, lookup, none)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	f(scenario.Target{APIKeyEnv: "NONE"}, "the variable NONE is not set")
	f(scenario.Target{APIKeyEnv: "EMPTY"}, "the variable EMPTY is not set")
	f(scenario.Target{APIKeyEnv: "BAD"}, "control character")
	f(scenario.Target{Cert: "c.pem"}, "both cert and key")
	if _, err := NewAccess(&scenario.Target{CA: "ca.pem"}, lookup, none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want one that wraps %v", err, fs.ErrNotExist)
	}
	f(scenario.Target{CA: "ca.pem"}, "target.ca")
}
