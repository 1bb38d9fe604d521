package scenario

import (
	"regexp"
	"strings"
)

// secretPath says whether a value may be a secret, so that errors do not show
// it.
func secretPath(path string) bool {
	for _, p := range []string{"target.header", "target.extra-body", "target.proxy", "target.url", "target.api-key", "data.telemetry"} {
		if strings.HasPrefix(path, "data.telemetry-") {
			return false
		}
		if path == p || strings.HasPrefix(path, p+".") || strings.HasPrefix(path, p+"[") || strings.HasPrefix(path, p+"-") {
			return true
		}
	}
	return false
}

// secretName says whether a header field, a query parameter or a field of a
// body carries a secret by its name.
func secretName(name string) bool {
	n := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	switch n {
	case "authorization", "proxy-authorization", "x-api-key", "api-key", "apikey", "cookie", "key", "x-goog-api-key", "password", "subscription-key", "ocp-apim-subscription-key":
		return true
	}
	return strings.HasSuffix(n, "-token") || n == "token" || strings.Contains(n, "secret") || strings.HasSuffix(n, "-api-key") || strings.Contains(n, "password")
}

// keyShapes are the forms of keys that are widely issued: a scheme with
// credentials, a JSON web token, and the prefixes that services give their keys
// so that scanners find them.
var keyShapes = regexp.MustCompile(`(?i)^\s*(bearer|basic)\s+\S|\beyJ[\w-]{8,}\.[\w-]{8,}\.|\b(sk|pk|rk)-[\w-]{16,}|\b(hf|gsk|nvapi|ghp|gho|glpat|xoxb|xoxp)[_-][\w-]{16,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}`)

var reference = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*(:-([^}]*))?\}`)

// named says whether the text at path names an environment variable.
func (v *validator) named(path string) bool {
	_, ok := v.raw(path)
	return ok
}

// raw returns the text at path, or at the list it is part of, as it was before
// variables were put in.
func (v *validator) raw(path string) (string, bool) {
	if v.s.origin.raw == nil {
		return "", false
	}
	// A list of one is called by the list's own name.
	for _, p := range []string{path, path + "[0]"} {
		if raw, ok := v.s.origin.raw[p]; ok {
			return raw, true
		}
	}
	if i := strings.LastIndexByte(path, '['); i > 0 {
		raw, ok := v.s.origin.raw[path[:i]]
		return raw, ok
	}
	return "", false
}

// secret refuses a key that is written out. ByName says that the name of the
// field alone makes the value a secret.
func (v *validator) secret(path, value string, byName bool) {
	if v.s.origin.doc == nil {
		// Made by a program: nothing is known of where the value came from.
		return
	}
	raw, named := v.raw(path)
	if !named {
		if byName || keyShapes.MatchString(value) {
			v.fail(path, "a key is written out here: put it in an environment variable and write ${NAME}, or use api-key-env", "")
		}
		return
	}
	for _, m := range reference.FindAllStringSubmatch(raw, -1) {
		if m[2] != "" && (byName || keyShapes.MatchString(m[2])) {
			v.fail(path, "a key is written out here as a default: write ${NAME} without one", "")
		}
	}
	// What stands around the variables: a scheme such as Bearer is none.
	for word := range strings.FieldsSeq(reference.ReplaceAllString(raw, " ")) {
		if len(word) >= 16 && byName || keyShapes.MatchString(word) {
			v.fail(path, "a key is written out here beside a variable: write ${NAME} for all of it", "")
		}
	}
}

// saved returns which raw texts are written instead of the values: those of
// fields that may hold a secret. A model or a rate from the environment is
// saved as the value that was run.
func saved(raws map[string]string) map[string]string {
	out := map[string]string{}
	for path, raw := range raws {
		if secretPath(path) {
			out[path] = raw
		}
	}
	return out
}

var credentials = regexp.MustCompile(`//[^/@]*@`)

// redact returns a URL without what may be secret in it, even when it is no
// URL: user name, password and the values of the query.
func redact(raw string) string {
	raw = credentials.ReplaceAllString(raw, "//…@")
	if base, _, ok := strings.Cut(raw, "?"); ok {
		raw = base + "?…"
	}
	if i := strings.LastIndexByte(raw, '@'); i >= 0 && !strings.Contains(raw, "…@") {
		raw = "…" + raw[i:]
	}
	return raw
}
