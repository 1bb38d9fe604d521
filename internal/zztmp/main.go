package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"plimsoll/internal/clock"
	"plimsoll/internal/dialect"
	"plimsoll/internal/load"
	"plimsoll/internal/random"
	"plimsoll/internal/record"
	"plimsoll/internal/stream"
	"plimsoll/internal/twin"
	"plimsoll/internal/workload"
)

type sink struct {
	n, ev, bounded, kern atomic.Int64
	mu                   sync.Mutex
	kinds                map[string]int
	lagMax, readMax      int64
	lags                 []int64

}

func (s *sink) Record(r *record.Request) {
	s.n.Add(1)
	b := 0
	for i := range r.Events {
		if r.Events[i].Bounded {
			b++
		}
	}
	s.ev.Add(int64(len(r.Events)))
	s.bounded.Add(int64(b))
	if r.KernelTimes {
		s.kern.Add(1)
	}
	s.mu.Lock()
	s.kinds[r.Status.String()+" "+r.Error.String()+" "+r.Message]++
	if r.Start != record.Unset {
		s.lagMax = max(s.lagMax, r.Start-r.Scheduled-r.CapWait)
		s.lags = append(s.lags, r.Start-r.Scheduled-r.CapWait)
	}
	s.readMax = max(s.readMax, r.ReadLagMax)
	s.mu.Unlock()
}

func main() {
	if os.Args[1] == "twin" {
		err := twin.Serve(context.Background(), twin.ServerConfig{Step: 50 * time.Millisecond, Listen: "127.0.0.1:0", Ready: func(a net.Addr) { fmt.Println(a) }})
		fmt.Println(err)
		return
	}
	addr := os.Args[2]
	n, _ := strconv.Atoi(os.Args[3])
	secs, _ := strconv.Atoi(os.Args[4])
	c := clock.New()
	s := &sink{kinds: map[string]int{}}
	if len(os.Args) > 5 {
		f, _ := os.Create(os.Args[5])
		go func() {
			time.Sleep(time.Duration(secs/2) * time.Second)
			pprof.StartCPUProfile(f)
			time.Sleep(3 * time.Second)
			pprof.StopCPUProfile()
			f.Close()
		}()
	}
	var ru0, ru1 syscall.Rusage
	syscall.Getrusage(0, &ru0)
	t0 := time.Now()
	live := new(load.Live)
	res, err := load.Run(context.Background(), load.Config{
		Clock: c, Stream: stream.Config{Now: c.Now, Start: c.Start()}, URLs: []string{"http://" + addr + "/v1/chat/completions"},
		API: dialect.OpenAIChat, Options: dialect.Options{Model: "llama-3.1-8b", Stream: true, Usage: true},
		Population: &workload.Synthetic{Prompt: random.Dist{A: 64}, Output: random.Dist{A: 200}, Exact: true}, Renderer: workload.Words{},
		Steps: []load.Step{{Users: n, Duration: time.Duration(secs) * time.Second, Drain: 20 * time.Second}}, Sink: s, Live: live,
	})
	syscall.Getrusage(0, &ru1)
	wall := time.Since(t0)
	cpu := time.Duration(ru1.Utime.Nano() + ru1.Stime.Nano() - ru0.Utime.Nano() - ru0.Stime.Nano())
	fmt.Println(err, res.Stopped, res.Message)
	h := s.lags
	sortInts(h)
	fmt.Printf("requests %d events %d (%.0f/s) bounded %.2f%% kernel %d sendlag p50 %v p99 %v max %v readlagmax %v cpu %.1f%% us/event %.2f rss %dMB\n", s.n.Load(), s.ev.Load(), float64(s.ev.Load())/wall.Seconds(), 100*float64(s.bounded.Load())/float64(s.ev.Load()), s.kern.Load(),
		time.Duration(h[len(h)/2]), time.Duration(h[len(h)*99/100]), time.Duration(s.lagMax), time.Duration(s.readMax), 100*cpu.Seconds()/wall.Seconds(), float64(cpu.Microseconds())/float64(s.ev.Load()), ru1.Maxrss/1024)
	fmt.Println(s.kinds)
}
func sortInts(x []int64) {
	for i := 1; i < len(x); i++ {
		for j := i; j > 0 && x[j] < x[j-1]; j-- {
			x[j], x[j-1] = x[j-1], x[j]
		}
	}
}
