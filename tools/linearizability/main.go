// Checks histories of concurrent clients for linearizability, with Porcupine.
//
//	linearizability FILE [SECONDS]     histories as the program beside it writes them, or a server's clients (served.go);
//	                                   seconds for each
//
// Ends with the counts; exit code 1 where a history is not linearizable, or could not be decided in its time.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
)

const keys = 4

// What each key has; 0: nothing.
type state [keys]uint64

type pair [2]uint64

type line struct {
	H, ID, T uint64
	E        string
	Op       string
	K, X     uint64
	W        []pair
	R        []pair
	OK       bool
}

// What came of an operation; a nil output: nobody knows.
type output struct {
	reads []pair
	ok    bool
}

func write(s state, pairs []pair) state {
	for _, p := range pairs {
		s[p[0]] = p[1]
	}
	return s
}

var model = porcupine.Model{
	Init: func() interface{} { return state{} },
	Step: func(st, in, out interface{}) (bool, interface{}) {
		s, call := st.(state), in.(*line)
		came, known := out.(*output)
		if known {
			for _, p := range came.reads {
				if s[p[0]] != p[1] {
					return false, s
				}
			}
		}
		if call.Op == "swap" {
			swaps := s[call.K] == call.X
			if known && came.ok != swaps {
				return false, s
			}
			if !swaps {
				return true, s
			}
		}
		return true, write(s, call.W)
	},
	Hash: func(st interface{}) uint64 {
		s, h := st.(state), uint64(14695981039346656037)
		for _, v := range s {
			h = (h ^ v) * 1099511628211
		}
		return h
	},
	DescribeOperation: func(in, out interface{}) string { return fmt.Sprintf("%v -> %v", in, out) },
}

type history struct {
	calls []*line
	came  map[uint64]*line
}

// What a file has: operations by history, how many of them have an unknown outcome, and what they mean.
type recorded struct {
	histories map[uint64][]porcupine.Operation
	unknown   int
	model     porcupine.Model
}

func read(path string) (*recorded, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all := &recorded{histories: map[uint64][]porcupine.Operation{}, model: model}
	histories := map[uint64]*history{}
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 1<<20), 1<<20)
	for lines.Scan() {
		if unknown, is := readServed(lines.Bytes(), all.histories); is {
			all.unknown, all.model = all.unknown+unknown, servedModel
			continue
		}
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s: %w", lines.Text(), err)
		}
		h := histories[l.H]
		if h == nil {
			h = &history{came: map[uint64]*line{}}
			histories[l.H] = h
		}
		if l.E == "call" {
			h.calls = append(h.calls, &l)
		} else {
			h.came[l.ID] = &l
		}
	}
	for number, h := range histories {
		ops, unknown := operations(h)
		all.histories[number], all.unknown = ops, all.unknown+unknown
	}
	return all, lines.Err()
}

func operations(h *history) (ops []porcupine.Operation, unknown int) {
	for i, call := range h.calls {
		op := porcupine.Operation{ClientId: i, Input: call, Call: int64(call.T), Return: math.MaxInt64}
		came := h.came[call.ID]
		if came == nil {
			unknown++
			// A read of which nobody knows the answer says nothing.
			if len(call.W) == 0 {
				continue
			}
		} else {
			if came.E == "fail" {
				continue
			}
			op.Return, op.Output = int64(came.T), &output{came.R, came.OK}
		}
		ops = append(ops, op)
	}
	return ops, unknown
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "linearizability FILE [SECONDS]")
		os.Exit(2)
	}
	seconds := 60
	if len(os.Args) > 2 {
		seconds, _ = strconv.Atoi(os.Args[2])
	}
	all, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	var done, wrong, undecided int
	for number, ops := range all.histories {
		done += len(ops)
		result, info := porcupine.CheckOperationsVerbose(all.model, ops, time.Duration(seconds)*time.Second)
		switch result {
		case porcupine.Illegal:
			wrong++
			picture := fmt.Sprintf("%s.%d.html", os.Args[1], number)
			if err := porcupine.VisualizePath(all.model, info, picture); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			fmt.Printf("history %d is NOT linearizable: %s\n", number, picture)
		case porcupine.Unknown:
			undecided++
			fmt.Printf("history %d of %d operations is not decided in %d s\n", number, len(ops), seconds)
		}
	}
	fmt.Printf("%d histories, %d operations, %d of unknown outcome: %d not linearizable, %d undecided\n",
		len(all.histories), done, all.unknown, wrong, undecided)
	if wrong+undecided > 0 || len(all.histories) == 0 {
		os.Exit(1)
	}
}
