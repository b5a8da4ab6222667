package main

import (
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Histories of a server's clients, an operation a line, as the test `serve_histories` writes them:
//
//	{"h":700,"t":881230,"end":882345,"c":[["INCRBY","7.0c","2"],["LPOP","7.0l"]],"r":[":5","$-1"]}
//
// Several commands are a transaction. Without replies nobody has read them: the operation has happened before "end", when
// its server was dead, or not at all. Values that begin with P have pad bytes in its place.
type served struct {
	H   uint64
	T   int64
	End *int64
	C   [][]string
	R   []string
}

const pad = 100_000

const noBytes, noArray = "$-1", "*-1"

// What a key has: a list if it is not nil, otherwise a string. A key without a value is not in the map. Values are never
// changed in place.
type value struct {
	text string
	list []string
}

type keyspace map[string]value

func (k keyspace) clone() keyspace {
	c := make(keyspace, len(k))
	for key, v := range k {
		c[key] = v
	}
	return c
}

func equal(a, b interface{}) bool {
	one, other := a.(keyspace), b.(keyspace)
	if len(one) != len(other) {
		return false
	}
	for key, v := range one {
		w, there := other[key]
		if !there || v.text != w.text || len(v.list) != len(w.list) {
			return false
		}
		for i := range v.list {
			if v.list[i] != w.list[i] {
				return false
			}
		}
	}
	return true
}

func describe(st interface{}) string {
	var parts []string
	for key, v := range st.(keyspace) {
		if v.list != nil {
			parts = append(parts, fmt.Sprintf("%s=%v", key, v.list))
		} else {
			parts = append(parts, key+"="+v.text)
		}
	}
	sort.Strings(parts)
	return strings.Join(parts, " ")
}

func hash(st interface{}) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range []byte(describe(st)) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

func (k keyspace) text(key string) string {
	if v, there := k[key]; there {
		return v.text
	}
	return noBytes
}

func flag(yes bool) string {
	if yes {
		return ":1"
	}
	return ":0"
}

func size(text string) int {
	if strings.HasPrefix(text, "P") {
		return len(text) - 1 + pad
	}
	return len(text)
}

func (k keyspace) push(key string, values []string, left bool) string {
	list := append([]string{}, k[key].list...)
	for _, v := range values {
		if left {
			list = append([]string{v}, list...)
		} else {
			list = append(list, v)
		}
	}
	k[key] = value{list: list}
	return fmt.Sprintf(":%d", len(list))
}

func (k keyspace) pop(key string, left bool) (string, bool) {
	list := k[key].list
	if len(list) == 0 {
		return "", false
	}
	at := len(list) - 1
	rest := list[:at]
	if left {
		at, rest = 0, list[1:]
	}
	popped := list[at]
	if len(rest) == 0 {
		delete(k, key)
	} else {
		k[key] = value{list: append([]string{}, rest...)}
	}
	return popped, true
}

func (k keyspace) move(c []string, none string) string {
	moved, there := k.pop(c[1], c[3] == "LEFT")
	if !there {
		return none
	}
	k.push(c[2], []string{moved}, c[4] == "LEFT")
	return moved
}

// Does a command and returns its reply.
func (k keyspace) apply(c []string) string {
	old, there := k[c[1]]
	switch c[0] {
	case "GET":
		return k.text(c[1])
	case "MGET":
		var all []string
		for _, key := range c[1:] {
			all = append(all, k.text(key))
		}
		return "[" + strings.Join(all, " ") + "]"
	case "SET":
		before := k.text(c[1])
		k[c[1]] = value{text: c[2]}
		if len(c) == 4 {
			return before
		}
		return "+OK"
	case "MSET":
		for i := 1; i < len(c); i += 2 {
			k[c[i]] = value{text: c[i+1]}
		}
		return "+OK"
	case "CAS":
		if there && old.text == c[2] {
			k[c[1]] = value{text: c[3]}
			return ":1"
		}
		return ":0"
	case "CAD":
		if there && old.text == c[2] {
			delete(k, c[1])
			return ":1"
		}
		return ":0"
	case "DEL":
		delete(k, c[1])
		return flag(there)
	case "INCRBY":
		number, _ := strconv.Atoi(old.text)
		by, _ := strconv.Atoi(c[2])
		k[c[1]] = value{text: strconv.Itoa(number + by)}
		return ":" + k[c[1]].text
	case "APPEND":
		k[c[1]] = value{text: old.text + c[2]}
		return fmt.Sprintf(":%d", size(old.text+c[2]))
	case "STRLEN":
		return fmt.Sprintf(":%d", size(old.text))
	case "LPUSH", "RPUSH":
		return k.push(c[1], c[2:], c[0] == "LPUSH")
	case "LPOP", "RPOP":
		if popped, there := k.pop(c[1], c[0] == "LPOP"); there {
			return popped
		}
		return noBytes
	case "LLEN":
		return fmt.Sprintf(":%d", len(old.list))
	case "LRANGE":
		return "[" + strings.Join(old.list, " ") + "]"
	case "LMOVE":
		return k.move(c, noBytes)
	case "BLMOVE":
		return k.move(c, noArray)
	case "BLPOP", "BRPOP":
		for _, key := range c[1 : len(c)-1] {
			if popped, there := k.pop(key, c[0] == "BLPOP"); there {
				return "[" + key + " " + popped + "]"
			}
		}
		return noArray
	}
	panic("histories have no " + c[0])
}

// The commands in the ways in which they may have been served. Of several keys for which a client has waited, that is the
// one that was written, whatever the others hold by then, as Redis does it. Its reply tells which; if it is lost, it may
// be any of them. Within a transaction nothing waits.
func (call *served) ways() [][][]string {
	c := call.C[0]
	if len(call.C) > 1 || (c[0] != "BLPOP" && c[0] != "BRPOP") {
		return [][][]string{call.C}
	}
	var ways [][][]string
	for _, key := range c[1 : len(c)-1] {
		if call.R == nil || strings.HasPrefix(call.R[0], "["+key+" ") {
			ways = append(ways, [][]string{{c[0], key, c[len(c)-1]}})
		}
	}
	if ways == nil {
		return [][][]string{call.C}
	}
	return ways
}

var servedModel = (&porcupine.NondeterministicModel{
	Init: func() []interface{} { return []interface{}{keyspace{}} },
	Step: func(st, in, out interface{}) []interface{} {
		call := in.(*served)
		var states []interface{}
		if call.R == nil {
			states = append(states, st)
		}
	ways:
		for _, way := range call.ways() {
			after := st.(keyspace).clone()
			for i, c := range way {
				if reply := after.apply(c); call.R != nil && call.R[i] != reply {
					continue ways
				}
			}
			states = append(states, after)
		}
		return states
	},
	Equal:         equal,
	Hash:          hash,
	DescribeState: describe,
	DescribeOperation: func(in, out interface{}) string {
		// A picture also has what was not placed, without an input.
		call, is := in.(*served)
		if !is {
			return ""
		}
		return fmt.Sprintf("%v -> %v", call.C, call.R)
	},
}).ToModel()

func (s *served) operation(client int) porcupine.Operation {
	end := int64(math.MaxInt64)
	if s.End != nil {
		end = *s.End
	}
	return porcupine.Operation{ClientId: client, Input: s, Call: s.T, Output: s.R, Return: end}
}

// Adds an operation of a server's client, if the line is one.
func readServed(line []byte, into map[uint64][]porcupine.Operation) (unknown int, is bool) {
	var s served
	if err := json.Unmarshal(line, &s); err != nil || s.C == nil {
		return 0, false
	}
	into[s.H] = append(into[s.H], s.operation(len(into[s.H])))
	if s.R == nil {
		unknown = 1
	}
	return unknown, true
}
