package scenario

import "testing"

// A key that a flag names by its variable is named, whether the flag gives one
// URL or several.
func TestFlagsNameSecrets(t *testing.T) {
	getenv := func(name string) (string, bool) { return "s3cret", name == "KEY" }
	for _, urls := range []string{"http://h?key=${KEY}", "http://h?key=${KEY},http://i?key=${KEY}"} {
		_, err := Read(Source{Getenv: getenv, Settings: []Setting{
			{Path: "target.url", Value: urls, Origin: "--url"}, {Path: "load.users", Value: "1", Origin: "--users"},
		}})
		if err != nil {
			t.Errorf("%s: %v", urls, err)
		}
	}
	_, err := Read(Source{Getenv: getenv, Settings: []Setting{
		{Path: "target.url", Value: "http://h?key=s3cret", Origin: "--url"}, {Path: "load.users", Value: "1", Origin: "--users"},
	}})
	if err == nil {
		t.Error("a key that is written out was taken")
	}
}
