package v1alpha1_test

// runtimeRows are about what only a SandboxRuntime has, and its changes.
func runtimeRows() []row {
	return of(runtimeKind,
		takes("the minimal one"),
		takes("one that is suspended from the start", set("suspend", "true")),
		takes("1 MiB of contents together", largeFiles(32)),
		refuses("no language", says("spec.language", "Required"), unset("language")),
		refuses("an unknown language", says("spec.language", `"Node", "Python"`), set("language", "Perl")),
		takesUpdate("more replicas", edits(), edits(set("replicas", "3"))),
		takesUpdate("another image and environment", edits(), edits(set("image", "node-22"), set("env", "[{name: A, value: a}]"))),
		takesUpdate("suspend", edits(), edits(set("suspend", "true"))),
		takesUpdate("network and bus access on", edits(), edits(set("network", "Enabled"), set("busAccess", "Enabled"))),
		takesUpdate("files, packages and setup", edits(), edits(set("network", "Enabled"), set("files", "[{path: /a, content: x}]"),
			set("packages", "[left-pad]"), set("setup", "[make]"))),
		refusesUpdate("another language", edits(), edits(set("language", "Python")), says("spec.language", "make a new SandboxRuntime")),
		refusesUpdate("no language", edits(), edits(unset("language")), says("spec.language", "Required")),
		refusesUpdate("two replicas that idle deletes", edits(set("idle.action", "Delete")), edits(set("replicas", "2")), says("spec.idle.action", "at most one replica")),
		refusesUpdate("the network off under packages", edits(set("network", "Enabled"), set("packages", "[left-pad]")), edits(unset("network")), says("spec.packages")),
		refusesUpdate("the network off under bus access", edits(set("network", "Enabled"), set("busAccess", "Enabled")), edits(unset("network")), says("spec.busAccess")),
		refusesUpdate("packages of another language", edits(set("network", "Enabled")), edits(set("packages", "[requests==2]")), says("spec.packages", "npm")),
		refusesUpdate("a null language", edits(), edits(set("language", "null")), says("spec.language")),
		takesUpdate("suspend off again", edits(set("suspend", "true")), edits(set("suspend", "false"))),
	)
}

// scaleRows are about how many sandboxes there are, and when.
func scaleRows() []row {
	scaled := []place{{kind: runtimeKind}, ownRuntime("Node")}
	return append(at(scaled, func() []row {
		return []row{
			takes("no replicas", set("replicas", "0")),
			takes("a concurrency of one", set("concurrency", "1")),
			takes("64 replicas", set("replicas", "64"), set("concurrency", "64")),
			takes("an empty idle policy", set("idle", "{}")),
			takes("an idle policy that keeps", set("idle", "{timeoutSeconds: 604800, action: Keep}")),
			takes("an idle policy that stops", set("idle", "{timeoutSeconds: 30, action: Stop}")),
			refuses("negative replicas", says("spec.replicas", "greater than or equal to 0"), set("replicas", "-1")),
			refuses("65 replicas", says("spec.replicas", "less than or equal to 64"), set("replicas", "65")),
			refuses("replicas beyond 32 bits", says("spec.replicas"), set("replicas", "2147483648")),
			refuses("half a replica", says("spec.replicas", "integer"), set("replicas", "0.5")),
			refuses("a concurrency of zero", says("spec.concurrency", "greater than or equal to 1"), set("concurrency", "0")),
			refuses("a concurrency of 65", says("spec.concurrency", "less than or equal to 64"), set("concurrency", "65")),
			refuses("an idle time of 29 seconds", says("spec.idle.timeoutSeconds", "greater than or equal to 30"), set("idle.timeoutSeconds", "29")),
			refuses("an idle time of more than a week", says("spec.idle.timeoutSeconds", "604800"), set("idle.timeoutSeconds", "604801")),
			refuses("an idle time with a unit", says("spec.idle.timeoutSeconds", "integer"), set("idle.timeoutSeconds", "15m")),
			refuses("an unknown idle action", says("spec.idle.action", `"Stop", "Keep", "Delete"`), set("idle.action", "Pause")),
		}
	}), of(runtimeKind,
		takes("an idle policy that deletes its one replica", set("idle", "{timeoutSeconds: 30, action: Delete}"), set("replicas", "1")),
		takes("an idle policy that deletes without a number of replicas", set("idle", "{action: Delete}")),
		refuses("an idle policy that deletes two replicas", says("spec.idle.action", "at most one replica"), set("idle.action", "Delete"), set("replicas", "2")),
	)...)
}
