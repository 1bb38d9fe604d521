package trace

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// writeParquet writes rows as a Parquet file.
func writeParquet[T any](t *testing.T, rows []T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.parquet")
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	return path
}

// Any format of rows may come as Parquet: what is read is what the same rows are as
// JSON lines, 64-bit hashes and dates included.
func TestParquet(t *testing.T) {
	type moon struct {
		Timestamp int64    `parquet:"timestamp"`
		Input     int32    `parquet:"input_length"`
		Output    *int32   `parquet:"output_length"`
		Hashes    []uint64 `parquet:"hash_ids,list"`
		Noise     float64  `parquet:"noise"`
	}
	five := int32(5)
	var rows []moon
	var lines strings.Builder
	for i := range 500 { // more than are read at once
		rows = append(rows, moon{int64(i) * 10, 600, &five, []uint64{1 << 63, uint64(i)}, math.NaN()})
		lines.WriteString(`{"timestamp": ` + strconv.Itoa(i*10) + `, "input_length": 600, "output_length": 5, "hash_ids": [9223372036854775808, ` + strconv.Itoa(i) + `]}` + "\n")
	}
	got, err := Load(writeParquet(t, rows), Options{}, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := loadText(lines.String(), Options{}, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Format != "mooncake" || !cmp.Equal(want.Records, got.Records) {
		t.Errorf("%s: %s", got.Format, cmp.Diff(want.Records[:2], got.Records[:2]))
	}

	type message struct {
		Role    string `parquet:"role"`
		Content string `parquet:"content"`
	}
	type chat struct {
		ID   string    `parquet:"conversation_id"`
		Conv []message `parquet:"conversation,list"`
		At   time.Time `parquet:"tstamp,timestamp(millisecond)"`
	}
	tr, err := Load(writeParquet(t, []chat{{"a", []message{{"user", "hi"}, {"assistant", "yo"}, {"user", "and?"}, {"assistant", "no"}}, time.Unix(9, 0)}}), Options{}, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if tr.Format != "sharegpt" || len(tr.Records) != 2 || tr.Records[1].Messages[0].Text != "and?" && tr.Records[1].Messages[2].Text != "and?" {
		t.Errorf("%s: %+v", tr.Format, tr.Records)
	}

	type azure struct {
		When   time.Time `parquet:"TIMESTAMP,timestamp(microsecond)"`
		Input  int64     `parquet:"ContextTokens"`
		Output *int64    `parquet:"GeneratedTokens"`
	}
	long, negative := int64(1<<30), int64(-5)
	tr, err = Load(writeParquet(t, []azure{{time.Unix(1700000000, 0), 10, &long}, {time.Unix(1700000001, 500_000), 11, &long}}), Options{}, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if tr.Format != "azure" || len(tr.Records) != 2 || tr.Records[1].At != 1_000_500_000 || tr.Records[1].Input != 11 || tr.Records[1].Output != 1<<30 {
		t.Errorf("%s: %+v", tr.Format, tr.Records)
	}
	for want, output := range map[string]*int64{"-5, want 0": &negative, "is empty": nil} {
		_, err := Load(writeParquet(t, []azure{{time.Unix(1700000000, 0), 10, &long}, {time.Unix(1700000001, 0), 10, output}}), Options{}, Selection{})
		if err == nil || !strings.Contains(err.Error(), "rows.parquet:3: GeneratedTokens: "+want) {
			t.Errorf("row 2 has a wrong length, line 3 with the names of the columns: %v", err)
		}
	}
}

// A file that is broken anywhere is an error.
func TestBrokenParquet(t *testing.T) {
	type row struct {
		Timestamp int64  `parquet:"timestamp"`
		Input     int32  `parquet:"input_length"`
		Output    int32  `parquet:"output_length"`
		Text      string `parquet:"text"`
	}
	var rows []row
	for i := range 200 {
		rows = append(rows, row{int64(i), 600, 5, strings.Repeat("x", i)})
	}
	path := writeParquet(t, rows)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	load := func(b []byte) error {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path, Options{}, Selection{})
		return err
	}
	for n := 4; n < len(good); n += 97 {
		if err := load(good[:n]); err == nil || !strings.Contains(err.Error(), "cut off or broken") {
			t.Errorf("the first %d bytes of %d are taken for all", n, len(good))
		}
	}
	for i := 4; i < len(good); i += 13 {
		b := append([]byte(nil), good...)
		b[i] ^= 0xff
		_ = load(b) // an error or other values, never a panic
	}
}

func FuzzParquet(f *testing.F) {
	type row struct {
		Timestamp int64    `parquet:"timestamp"`
		Input     int32    `parquet:"input_length"`
		Hashes    []uint64 `parquet:"hash_ids,list"`
		Text      *string  `parquet:"text"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b)
	text := "hello"
	if _, err := w.Write([]row{{1, 2, []uint64{3}, &text}, {2, 2, nil, nil}}); err != nil {
		f.Fatal(err)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := openParquet(bytes.NewReader(b), int64(len(b)), "f")
		if err != nil {
			return
		}
		text, err := io.ReadAll(io.LimitReader(p, 1<<20))
		if err == nil && len(text) == 0 && p.flat != nil {
			t.Error("a table without the names of its columns")
		}
	})
}
