package trace

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// What a host is does not change with how it is written.
func TestSpellingsOfHosts(t *testing.T) {
	for _, c := range []struct {
		ref string
		ok  bool
	}{
		{"http://１６９.254.169.254/latest", false},
		{"http://169。254。169。254/", false},
		{"http://169．254｡169.254/", false},
		{"http://⑯⑨.254.169.254/", false},
		{"http://1\u00ad69.2\u200b54.169.254/", false},
		{"http://%EF%BC%91%EF%BC%96%EF%BC%99.254.169.254/", false},
		{"http://ｌｏｃａｌｈｏｓｔ/", false},
		{"http://ⓛocalhost/", false},
		{"http://metadata。google。internal/", false},
		{"http://localhost../", false},
		{"http://[64:ff9b::a9fe:a9fe]/", false},
		{"http://[64:ff9b::10.0.0.1]/", false},
		{"http://[64:ff9b:1::a9fe:a9fe]/", false},
		{"http://[2002:a9fe:a9fe::1]/", false},
		{"http://[2001:0:a9fe:a9fe::1]/", false},
		{"http://[2001:0:4136:e378:8000:63bf:5601:5601]/", false}, // Teredo of 169.254.169.254
		{"http://[::169.254.169.254]/", false},
		{"http://[::ffff:0:169.254.169.254]/", false},
		{"http://[2607:f8b0::5efe:10.0.0.1]/", false},
		{"http://168.63.129.16/", false},
		{"http://192.0.0.192/latest/", false},
		{"ht\ntp://169.254.169.254/", false},
		{"\u200bfi\tle:///etc/passwd", false},
		{"/srv/someuser/project/secret/data/and/some/more/letters/of/base64/id", false},
		{"/" + strings.Repeat("abcd", 20) + "abc", false},
		{"//server/" + strings.Repeat("abcd", 20), false},

		{"http://93.184.216.３４/", true},
		{"http://[64:ff9b::5db8:d822]/", true},
		{"http://[2002:5db8:d822::1]/", true},
		{"http://[2001:0:4136:e378:8000:63bf:a247:27dd]/", true}, // Teredo of 93.184.216.34
		{"http://[2606:2800:220:1::1]/", true},
		{"https://bücher.example/a.png", true},
		{"DATA:image/png;base64,iVBORw0KGgo=", true},
		{"/9j/" + strings.Repeat("4AAQSkZJ", 10), true},    // a JPEG
		{"/" + strings.Repeat("abcd", 1500) + "abc", true}, // longer than a path can be
	} {
		if why := checkURL(c.ref); (why == "") != c.ok {
			t.Errorf("%.80q: %q, want ok %v", c.ref, why, c.ok)
		}
	}
}

// A body is sent as it is: whatever a field is called, it may not point at what only
// the server can reach; what people say may hold anything.
func TestReferencesInBodies(t *testing.T) {
	const where = "http://169.254.169.254/latest"
	long := "/srv/someuser/project/secret/data/and/some/more/letters/of/base64/id"
	for _, c := range []struct{ body, field string }{
		{`"messages":[{"role":"user","content":[{"type":"pdf_url","pdf_url":"file:///etc/passwd"}]}]`, "content.pdf_url"},
		{`"messages":[{"role":"user","content":[{"type":"document","document":{"url":"` + where + `"}}]}]`, "content.document.url"},
		{`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":{"href":"` + where + `"}}}]}]`, "content.image_url.url.href"},
		{`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + long + `"}}]}]`, "image_url"},
		{`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///a","url":"https://example.com/a"}}]}]`, "content.image_url.url"},
		{`"messages":[{"role":"user","content":"x"}],"image_data":"/etc/passwd"`, "image_data"},
		{`"messages":[{"role":"user","content":"x"}],"image_data":["etc/passwd"]`, "image_data"},
		{`"messages":[{"role":"user","content":"x"}],"lora_path":"/etc/passwd"`, "lora_path"},
		{`"messages":[{"role":"user","content":"x"}],"x":{"imageUrl":"~/a"}`, "x.imageUrl"},
		{`"messages":[{"role":"user","content":"x"}],"anything":["` + where + `"]`, "anything"},
		{`"messages":[{"role":"user","content":"x"}],"anything":"gopher://example.com/a"`, "anything"},
		{`"messages":[{"role":"user","content":"x"}],"anything":"file:/etc/passwd"`, "anything"},
		{`"messages":[{"role":"user","content":"x"}],"tools":[{"type":"mcp","server_url":"` + where + `"}]`, "tools.server_url"},
		{`"messages":[{"role":"user","content":"x"}],"response_format":{"schema":{"$ref":"file:///etc/passwd"}}`, "response_format.schema.$ref"},
		{`"prompt":"x","lora_path":"/etc/passwd"`, "lora_path"},
		{`"prompt":"x","image_data":"http://[64:ff9b::a9fe:a9fe]/"`, "image_data"},
		{`"input":"x","tools":[{"type":"mcp","server_url":"http://１６９.254.169.254/"}]`, "tools.server_url"},
		{`"input":[{"role":"user","content":[{"type":"input_file","file_data":"/etc/passwd"}]}]`, "content.file_data"},

		{`"messages":[{"role":"user","content":"file:///etc/passwd"},{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"read","arguments":"/etc/passwd"}}]}]`, ""},
		{`"messages":[{"role":"user","content":[{"type":"text","text":"` + where + `"}]}]`, ""},
		{`"messages":[{"role":"user","content":[{"type":"tool_use","input":{"path":"/etc/passwd"}}]}]`, ""},
		{`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"auto"}}]}]`, ""},
		{`"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"UklGRiQAAABXQVZF","format":"wav"}}]}]`, ""},
		{`"prompt":"/etc/passwd","stop":["://","http://localhost"],"user":"a:b"`, ""},
		{`"input":"` + where + `","instructions":"see http://localhost"`, ""},
		{`"messages":[{"role":"user","content":"x"}],"audio":{"voice":"alloy","format":"wav"},"note":"see http://localhost for more"`, ""},
		{`"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"path":{"default":"/tmp","examples":["http://localhost/"]}}}}}]`, ""},
	} {
		for _, row := range []struct{ format, text string }{
			{"raw-payload", `{"model":"/models/m",` + c.body + `}`},
			{"openai-batch", `{"custom_id":"a","method":"POST","url":"/v1/x","body":{"model":"m",` + c.body + `}}`},
			{"mooncake", `{"timestamp":0,"payload":{` + c.body + `}}`},
			{"plimsoll", `{"at_ns":0,"body":{` + c.body + `}}`},
		} {
			_, err := loadText(row.text, Options{}, Selection{})
			if c.field == "" {
				if err != nil {
					t.Errorf("%s: %s: %v", row.format, c.body, err)
				}
				continue
			}
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Line != 1 || e.Field != c.field || !strings.Contains(e.Text, "refused") {
				t.Errorf("%s: %s: %v, want line 1 and field %s", row.format, c.body, err, c.field)
			}
		}
	}
}

// Pictures beside the text of a row are references, too; nothing else there is.
func TestReferencesBesideText(t *testing.T) {
	for _, c := range []struct {
		row, field string
		images     int
	}{
		{`{"id":"a","conversations":[{"from":"human","value":"x"}],"image":"/etc/passwd"}`, "image", 0},
		{`{"id":"a","conversations":[{"from":"human","value":"x"}],"image":"../a.png"}`, "image", 0},
		{`{"messages":[{"role":"user","content":"x"}],"images":["https://example.com/a.png","http://169.254.169.254/a"]}`, "images", 0},
		{`{"messages":[{"role":"user","content":"x"}],"images":[{"bytes":null,"path":"/etc/passwd"}]}`, "images.path", 0},
		{`{"prompt":"x","audio":"file:///a.wav"}`, "audio", 0},
		{`{"text":"x","images":[{"name":"","contents":["/etc/passwd"]}]}`, "images", 0},

		{`{"id":"a","conversations":[{"from":"human","value":"x"}],"image":"https://example.com/a.png"}`, "", 1},
		{`{"messages":[{"role":"user","content":"x"}],"images":["https://example.com/a.png","https://example.com/b.png"]}`, "", 2},
		{`{"prompt":"x","path":"/src/a.py","source":"http://localhost/"}`, "", 0},
		{`{"text":"x","images":[{"name":"","contents":["https://example.com/a.png"]}]}`, "", 1},
	} {
		tr, err := loadText(c.row, Options{}, Selection{})
		if c.field == "" {
			if err != nil || tr.Summary.Images != c.images {
				t.Errorf("%s: %v, %+v", c.row, err, tr)
			}
			continue
		}
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Line != 1 || e.Field != c.field || !strings.Contains(e.Text, "refused") {
			t.Errorf("%s: %v, want line 1 and field %s", c.row, err, c.field)
		}
	}
}

// What a row of text has beside it and is not sent is counted and said.
func TestUnsent(t *testing.T) {
	text := `{"prompt":"a","temperature":0.5,"response_format":{"type":"json_object"},"max_tokens":7}
{"messages":[{"role":"user","content":[{"type":"text","text":"b"},{"type":"input_audio","input_audio":{"data":"UklGRg=="}},{"type":"doc","doc":"c"}]}],"temperature":1}
`
	tr, err := loadText(text, Options{}, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	const want = "1 doc, 1 input_audio, 1 response_format, 2 temperature"
	if got := Counts(tr.Summary.Unsent); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if tr.Records[0].Output != 7 {
		t.Errorf("output %d, want max_tokens", tr.Records[0].Output)
	}
	p, err := NewReplay(tr, ReplayOptions{Untimed: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := p.Describe(); !strings.Contains(d, "not sent beside its text: "+want) {
		t.Errorf("%q does not say %q", d, want)
	}

	tr, err = loadText(`{"text":"a","audio":"data:audio/wav;base64,UklGRg==","extra":{"temperature":0},"top_p":1}`, Options{}, Selection{})
	if err != nil || Counts(tr.Summary.Unsent) != "1 audio, 1 extra, 1 top_p" {
		t.Errorf("%v, %+v", err, tr)
	}
	tr, err = loadText(`{"session_id":"a","turns":[{"text":"a","temperature":1},{"text":"b","video":"https://example.com/a"}]}`, Options{}, Selection{})
	if err != nil || Counts(tr.Summary.Unsent) != "1 temperature, 1 video" {
		t.Errorf("%v, %+v", err, tr)
	}
	// A body is sent whole.
	tr, err = loadText(`{"model":"m","temperature":1,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a"}},{"type":"input_audio","input_audio":{"data":"UklGRg=="}}]}]}`, Options{}, Selection{})
	if err != nil || tr.Summary.Unsent != nil {
		t.Fatalf("%v, %+v", err, tr)
	}
	if p, err = NewReplay(tr, ReplayOptions{Untimed: true}); err != nil || strings.Contains(p.Describe(), "not sent") {
		t.Errorf("%v: %q", err, p.Describe())
	}
}

// The parts of parts are read: a tool's result, a span's words.
func TestTextInsideParts(t *testing.T) {
	tr, err := loadText(`{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"a"}]},{"type":"text","content":"b"}]}]}`, Options{}, Selection{})
	if err != nil || tr.Records[0].Messages[0].Text != "a\nb" {
		t.Errorf("%v, %+v", err, tr)
	}
}

// A row of which nothing would be sent is an error.
func TestNothingToSend(t *testing.T) {
	for _, c := range []struct{ row, field, says string }{
		{`{"prompt":""}`, "prompt", "is empty"},
		{`{"prompt":"","output_tokens":3,"input_tokens":5}`, "prompt", "is empty"},
		{`{"timestamp":0,"text_input":"","output_length":3}`, "text_input", "is empty"},
		{`{"messages":[{"role":"user"}]}`, "messages.content", "of message 1 (user) is missing"},
		{`{"model":"m","messages":[{"role":"user"}]}`, "messages.content", "of message 1 (user) is missing"},
		{`{"messages":[{"role":"user","content":""}]}`, "messages.content", "is empty"},
		{`{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"UklGRg=="}}]}]}`, "messages.content", "input_audio is not"},
		{`{"audio":"data:audio/wav;base64,UklGRg==","text":""}`, "text", "audio is not"},
		{`{"id":"a","conversations":[{"from":"human","value":[{"type":"input_audio","input_audio":{"data":"UklGRg=="}}]}]}`, "content", "input_audio is not"},
	} {
		_, err := loadText(`{"prompt":"x"}`+"\n"+c.row, Options{Format: formatOf(t, c.row)}, Selection{})
		if c.row[2] == 'a' || c.row[2] == 'i' || strings.HasPrefix(c.row, `{"model`) {
			_, err = loadText("\n"+c.row, Options{}, Selection{})
		}
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Line != 2 || e.Field != c.field || !strings.Contains(e.Text, c.says) {
			t.Errorf("%s: %v, want line 2, field %s and %q", c.row, err, c.field, c.says)
		}
	}
	// Of pictures alone there may be something to send: made ones.
	tr, err := loadText(`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a"}}]}]}`, Options{}, Selection{})
	if err != nil || !tr.Records[0].hasNothing() || tr.Records[0].Images != 1 {
		t.Errorf("%v, %+v", err, tr)
	}
}

func formatOf(t *testing.T, row string) string {
	t.Helper()
	r, err := NewReader(strings.NewReader(row), "t", Options{})
	if err != nil {
		t.Fatal(err)
	}
	name, _ := r.Format()
	return name
}

// Errors name the fields that are in the file, and what a slip was meant as.
func TestErrorsNameFieldsOfTheFile(t *testing.T) {
	for _, c := range []struct {
		text  string
		line  int
		field string
		says  []string
	}{
		{`{"prompt":"a"}` + "\n" + `{"promt":"b"}`, 2, "prompt", []string{"is missing", `"promt"`, "messages"}},
		{`{"prompt":"a"}` + "\n" + `{"x":"b"}`, 2, "prompt", []string{"is missing", "messages"}},
		{`{"prompt":"a","output_tokens":-4}`, 1, "output_tokens", []string{"-4", "want 0 to"}},
		{`{"prompt":"a","output_tokens":1e99}`, 1, "output_tokens", []string{"1e99", "want 0 to"}},
		{`{"prompt":"a","output_tokens":"1e999"}`, 1, "output_tokens", []string{"1e999", "want 0 to"}},
		{`{"prompt":"a","output_tokens":"NaN"}`, 1, "output_tokens", []string{"NaN", "whole number"}},
		{`{"prompt":"a","output_tokens_count":2.5}`, 1, "output_tokens_count", []string{"whole number"}},
		{`{"text":"a","max_tokens":-1}`, 1, "max_tokens", []string{"want 0 to"}},
		{`{"model":"m","prompt":"a","max_completion_tokens":-1}`, 1, "max_completion_tokens", []string{"want 0 to"}},
		{`{"input_length":1,"output_length":2,"delay_ms":-1}`, 1, "delay_ms", []string{"below 0"}},
		{"\n" + `{"timestamp":0,"output_length":10}`, 2, "input_length", []string{"is missing", "mooncake", "text_input, messages or payload"}},
		{`{"promt":"b"}`, 1, "prompt", []string{`"promt"`, "jsonl"}},
		{`{"chat_id":1,"turn":1,"timestamp":0}`, 1, "parent_chat_id", []string{"is missing", "bailian"}},
		{`{"timestamp":"NaN","input_length":1,"output_length":2}`, 1, "timestamp", []string{"is not a time"}},
		{`{"timestamp":"Infinity","input_length":1,"output_length":2}`, 1, "timestamp", []string{"is not a time"}},
		{`{"timestamp":1e300,"input_length":1,"output_length":2}`, 1, "timestamp", []string{"is not a time"}},
		{`{"text":"a","images":[{"content":["https://example.com/a"]}]}`, 1, "images", []string{"contents"}},
		{`{"text":"a","images":[3]}`, 1, "images", []string{"neither a text nor a list"}},
	} {
		_, err := loadText(c.text, Options{}, Selection{})
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Line != c.line || e.Field != c.field {
			t.Errorf("%s: %v, want line %d and field %s", c.text, err, c.line, c.field)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q does not say %q", c.text, err, s)
			}
		}
		if strings.Contains(err.Error(), "time-unit") {
			t.Errorf("%s: %q", c.text, err)
		}
	}
}

// Fields that the user names are read, in rows too.
func TestNamedFieldsOfRows(t *testing.T) {
	opts := Options{Format: "guidellm", Columns: map[string]string{"kind": "k", "images": "n", "took": "t", "output": "o"}}
	tr, err := loadText(`{"input_length":4,"o":5,"k":"chat","n":2,"t":1.5}`, opts, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if r := tr.Records[0]; r.Kind != "chat" || r.Images != 2 || r.Took != 15e8 || r.Output != 5 {
		t.Errorf("%+v", r)
	}
	if _, err := loadText(`{"input_length":4,"o":-5,"k":"chat","n":2,"t":1.5}`, opts, Selection{}); err == nil || !strings.Contains(err.Error(), ":1: o: ") {
		t.Errorf("%v does not name the column", err)
	}
}

// What is remarked of a window is true of the window.
func TestNoticesOfAWindow(t *testing.T) {
	var sb strings.Builder
	for i := range 400 {
		fmt.Fprintf(&sb, `{"timestamp":%d,"input_length":1,"output_length":2}`+"\n", i/4*3000)
	}
	for _, c := range []struct {
		sel  Selection
		says string
	}{
		{Selection{}, "400 requests stand on 100 instants, up to 4 on one"},
		{Selection{To: 30e9}, "40 requests stand on 10 instants, up to 4 on one"},
		{Selection{From: 30e9, To: 60e9}, "40 requests stand on 10 instants, up to 4 on one"},
		{Selection{Limit: 10}, "10 requests stand on 3 instants, up to 4 on one"},
		{Selection{From: 30e9, To: 60e9, Spread: true}, "40 requests stand on 10 instants, up to 4 on one: they are distributed"},
		{Selection{To: 3e9}, ""},
	} {
		tr, err := loadText(sb.String(), Options{}, c.sel)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(tr.Summary.Notices, "; ")
		if strings.Count(got, "stand on") > 1 || c.says == "" && strings.Contains(got, "stand on") || !strings.Contains(got, c.says) {
			t.Errorf("%+v: %q, want %q", c.sel, got, c.says)
		}
	}
}
