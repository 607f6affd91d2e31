package v1alpha1_test

import (
	"fmt"
	"slices"
	"strings"
)

// manyFiles has files with the longest paths.
func manyFiles(count int) edit {
	folders := strings.Repeat("/abcdefg", 63)
	return many("files", count, func(n int) any {
		return map[string]any{"path": fmt.Sprintf("%s/%07d", folders, n), "content": "x"}
	})
}

// largeFiles has files with the largest contents.
func largeFiles(count int) edit {
	return many("files", count, func(n int) any {
		return map[string]any{"path": fmt.Sprintf("/a/%d", n), "content": long(32768)}
	})
}

// deepFiles has files whose paths are made of many segments.
func deepFiles(count int) edit {
	return many("files", count, func(n int) any {
		return map[string]any{"path": strings.Repeat("/a", 254) + fmt.Sprintf("/%d", n), "content": "x"}
	})
}

// fileRows are about files in guests.
func fileRows() []row {
	return slices.Concat(
		at(guests("Node"), guestFileRows),
		at(append(guests("Node"), place{kind: runKind}), anyFileRows),
		of(runKind,
			takes("files beside the program and elsewhere", set("files", `[{path: data/in.json, content: "{}", mode: "0600"}, {path: /etc/key, contentFrom: {secretKeyRef: {name: a, key: b}}}]`)),
			takes("a file of one character", set("files", "[{path: x, content: a}]")),
			refuses("a file outside of the folder", says("spec.files[0].path", "segment"), set("files", "[{path: ../x, content: a}]")),
			refuses("a file in a file", says("spec.files", "must not be the folder of another one"), set("files", "[{path: x, content: a}, {path: x/y, content: b}]")),
		),
	)
}

// guestFileRows are about the files of a sandbox, which belong to no program.
func guestFileRows() []row {
	return []row{
		refuses("a relative path", says("spec.files", "must be absolute"), set("files", "[{path: a/b, content: x}]")),
		refuses("a path below the home", says("spec.files", "must be absolute"), set("files", "[{path: ~/a, content: x}]")),
	}
}

func anyFileRows() []row {
	return []row{
		takes("files of all sorts", set("files", `[{path: /a, content: ""}, {path: /b/c.d/e, mode: "0755", content: x},
		{path: /s, contentFrom: {secretKeyRef: {name: s, key: k}}}, {path: /c, contentFrom: {configMapKeyRef: {name: c, key: k}}}]`)),
		takes("paths that only look like those of the system", set("files", "[{path: /process, content: x}, {path: /etc/dev, content: x}, {path: /a/..b, content: x}]")),
		takes("the largest content of a file", set("files", "[{path: /a, content: "+strings.Repeat("x", 32768)+"}]")),
		takes("64 files", manyFiles(64)),
		refuses("a file without content", says("spec.files[0]", "exactly one of content and contentFrom"), set("files", "[{path: /a}]")),
		refuses("a file with two contents", says("spec.files[0]", "exactly one of content and contentFrom"),
			set("files", "[{path: /a, content: x, contentFrom: {secretKeyRef: {name: s, key: k}}}]")),
		refuses("a file from nowhere", says("spec.files[0].contentFrom", "exactly one of"), set("files", "[{path: /a, contentFrom: {}}]")),
		refuses("a file without a path", says("spec.files[0].path", "Required"), set("files", "[{content: x}]")),
		refuses("a path of a folder", says("spec.files[0].path", "must name a file"), set("files", "[{path: /a/, content: x}]")),
		refuses("a path with an empty segment", says("spec.files[0].path", "must name a file"), set("files", "[{path: /a//b, content: x}]")),
		refuses("a path that climbs", says("spec.files[0].path", "must name a file"), set("files", "[{path: /a/../proc/x, content: x}]")),
		refuses("a path with a dot", says("spec.files[0].path", "must name a file"), set("files", "[{path: /a/./b, content: x}]")),
		refuses("a path below /proc", says("spec.files[0].path", "must not be below"), set("files", "[{path: /proc/self/oom_score_adj, content: x}]")),
		refuses("a path of the agent", says("spec.files[0].path", "must not be below"), set("files", "[{path: /sandbox-operator/x, content: x}]")),
		refuses("a path of 513 characters", says("spec.files[0].path", "512"), set("files", "[{path: /"+strings.Repeat("a", 512)+", content: x}]")),
		refuses("a mode that is not octal", says("spec.files[0].mode"), set("files", `[{path: /a, content: x, mode: "0888"}]`)),
		refuses("a mode with a sticky bit", says("spec.files[0].mode"), set("files", `[{path: /a, content: x, mode: "4755"}]`)),
		refuses("a content of 32769 characters", says("spec.files[0].content", "32768"), set("files", "[{path: /a, content: "+strings.Repeat("x", 32769)+"}]")),
		refuses("two files of one path", says("spec.files[1]", "Duplicate"), set("files", "[{path: /a, content: x}, {path: /a, content: y}]")),
		refuses("65 files", says("spec.files", "64"), manyFiles(65)),
		refuses("2000 files", says("spec.files", "at most 64 items"), manyFiles(2000)),
		takes("much content together", largeFiles(31)),
		refuses("more than 1 MiB of contents together", says("spec", "files must have at most 1048576 bytes together"), largeFiles(33)),
		refuses("more than 1 MiB of contents and values together", says("spec", "at most 1048576 bytes together"), largeFiles(32), set("env", "[{name: A, value: a}]")),
		takes("the shortest path", set("files", "[{path: /a, content: x}]")),
		takes("64 files of many segments", deepFiles(64)),
		takes("32768 bytes of multi-byte content", set("files", "[{path: /a, content: "+strings.Repeat("é", 16384)+"}]")),
		takes("a content with NUL characters", set("files", `[{path: /a, content: "a\0b"}]`)),
		takes("a segment of 255 characters", set("files", "[{path: /"+long(255)+"/a, content: x}]")),
		takes("paths of which one begins like the other", set("files", "[{path: /a, content: x}, {path: /ab, content: x}, {path: /a.b/c, content: x}]")),
		takes("paths that differ in their normal form", set("files", `[{path: "/caf\u00e9", content: x}, {path: "/cafe\u0301", content: x}]`)),
		takes("paths of any text", set("files", `[{path: "/\u202eשלום 🎉", content: x}, {path: "/a\u200bb", content: x}]`)),
		takes("the mode that allows nothing", set("files", `[{path: /a, content: x, mode: "0000"}]`)),
		refuses("an empty path", says("spec.files[0].path", "at least 1"), set("files", `[{path: "", content: x}]`)),
		refuses("the root", says("spec.files[0].path", "must name a file"), set("files", "[{path: /, content: x}]")),
		refuses("a path that ends in dots", says("spec.files[0].path", "must name a file"), set("files", "[{path: /a/.., content: x}]")),
		refuses("the folder of the agent", says("spec.files[0].path", "must not be below"), set("files", "[{path: /sandbox-operator, content: x}]")),
		refuses("a path below /dev", says("spec.files[0].path", "must not be below"), set("files", "[{path: /dev/shm/x, content: x}]")),
		refuses("a path below /sys", says("spec.files[0].path", "must not be below"), set("files", "[{path: /sys/x, content: x}]")),
		refuses("a path with a NUL character", says("spec.files[0].path", "no NUL character"), set("files", `[{path: "/a\0b", content: x}]`)),
		refuses("a segment of 256 characters", says("spec.files[0].path", "more than 255 characters"), set("files", "[{path: /"+long(256)+", content: x}]")),
		takes("a path of 255 bytes in fewer characters", set("files", "[{path: /"+strings.Repeat("é", 127)+", content: x}]")),
		takes("segments of 252 bytes in 63 characters", set("files", `[{path: "`+strings.Repeat("/"+strings.Repeat("🎉", 63), 4)+`", content: x}]`)),
		refuses("a segment of 256 bytes in fewer characters", says("spec.files[0].path", "at most 255 bytes"), set("files", "[{path: /"+strings.Repeat("é", 128)+", content: x}]")),
		refuses("a file in a file", says("spec.files", "must not be the folder of another one"), set("files", "[{path: /a/b, content: x}, {path: /a, content: x}]")),
		refuses("32769 bytes of multi-byte content", says("spec.files[0].content", "at most 32768 bytes", "contentFrom"), set("files", "[{path: /a, content: x"+strings.Repeat("é", 16384)+"}]")),
		refuses("an empty mode", says("spec.files[0].mode", "should match"), set("files", `[{path: /a, content: x, mode: ""}]`)),
		refuses("a mode without the leading zero", says("spec.files[0].mode", "should match"), set("files", `[{path: /a, content: x, mode: "644"}]`)),
		refuses("a mode as YAML 1.2 writes octal numbers", says("spec.files[0].mode"), set("files", `[{path: /a, content: x, mode: "0o644"}]`)),
		refuses("a mode of five digits", says("spec.files[0].mode", "4"), set("files", `[{path: /a, content: x, mode: "00644"}]`)),
		refuses("a mode that is a number", says("spec.files[0].mode", "string"), set("files", `[{path: /a, content: x, mode: 0644}]`)),
		refuses("a symbolic mode", says("spec.files[0].mode", "should match"), set("files", `[{path: /a, content: x, mode: u+rw}]`)),
	}
}
