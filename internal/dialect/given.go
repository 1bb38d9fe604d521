package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// CheckBody says why a given body cannot be sent to an API: it is no JSON object,
// or has not what the API answers to.
func CheckBody(api API, body string) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		return errors.New("the body is no JSON object")
	}
	want, other := "prompt", "messages"
	switch api {
	case OpenAIChat:
		want, other = other, want
	case OpenAIResponses:
		want = "input"
	case OpenAICompletions:
	}
	if _, ok := fields[want]; ok {
		return nil
	}
	if _, ok := fields[other]; ok {
		return fmt.Errorf("the body has %s, which API %s does not take: want %s", other, api, want)
	}
	return fmt.Errorf("the body has no %s, which API %s wants", want, api)
}

// given writes the fields of a body but for those that the run decides on.
func (w *bodyWriter) given(body string, exact bool, o *Options) error {
	ours := map[string]bool{
		"model": o.Model != "", "stream": true, "stream_options": true, "temperature": o.Temperature != nil,
		"ignore_eos": exact || o.IgnoreEOS, "min_tokens": exact || o.IgnoreEOS,
	}
	d := json.NewDecoder(strings.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("make request body: the given body is no JSON object")
	}
	w.have = map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return fmt.Errorf("make request body: the given body: %w", err)
		}
		name, _ := t.(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return fmt.Errorf("make request body: the given body: %s: %w", name, err)
		}
		if ours[name] {
			continue
		}
		if _, replaced := w.extra[name]; replaced || w.have[name] {
			continue
		}
		w.comma()
		w.dst = appendQuoted(w.dst, name)
		w.dst = append(append(w.dst, ':'), value...)
		w.have[name] = true
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("make request body: the given body: %w", err)
	}
	return nil
}
