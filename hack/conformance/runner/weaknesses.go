package main

// weakness is one of contracts/code-runner.md §19 and what became of it.
type weakness struct {
	id string
	// what it is in the original, in a few words.
	what string
	// ours says what our product does instead.
	ours string
	// tests are rows of the catalog, or Go tests as folder and name. None means
	// that the part in question is not built.
	tests []string
}

// notBuilt is said of what our product does not have.
const notBuilt = "not built"

// weaknesses are those of §19.1 (W), §19.2 (R) and §19.3 (X), in order.
var weaknesses = []weakness{
	{"W1", "dead functions stay in the catalog", "withdrawn within seconds of the loss", []string{"E09_runtime_gone", "H12_idle_time_passes"}},
	{"W2", "a self-call stalls", "answered, or capacity at once", []string{"E20_self_call"}},
	{"W3", "a restart loses everything", "state is in custom resources; sandboxes are adopted", []string{"H11_restart"}},
	{"W4", "no respawn", "functions are declarations; the next call boots their sandbox", []string{"E22_idle_sweep", "H01_loss_of_a_functions_sandbox"}},
	{"W5", "no draining at shutdown", "calls in flight end first; sandboxes are adopted", []string{"E12_worker_shuts_down"}},
	{"W6", "one lock for all cold starts", "one for each namespace and language", []string{"D04_two_first_registrations", "bus/shim TestKeyedLocks"}},
	{"W7", "files of one sandbox in another", "shared folders are overlaid before any program runs", []string{"guest/agent TestOverlaySharedFolders"}},
	{"W8", "results share stdout with prints", "a descriptor of their own", []string{"E02_nothing_to_forge", "F22_frame_text_in_output"}},
	{"W9", "registrations of a guest are gone with it", "said in the guidance; register_function stays", []string{"G12_registration_of_the_guest", "D26_registration_from_a_run", "K09_guidance_text"}},
	{"W10", "async def refused", "awaited", []string{"F06_python_coroutine"}},
	{"W11", "guests have all rights of a worker", "a listener of their own with a policy; no network unless asked for", []string{"G19_operators_functions", "A10_runs_without_network", "bus/guestaccess TestListener_refusals"}},
	{"W12", "the Python SDK is installed at each creation", "it is in the image", []string{"A08_python_one_shot_executions", "A10_runs_without_network"}},
	{"W13", "a large bundle is written inline", "one compressed agent goes through a channel", []string{"A02_back_end_call_order", "K14_sdk_bundle"}},
	{"W14", "the daemon may still execute after the margin", "the agent in the guest holds the deadline and kills", []string{"B13_deadline_in_kept_runtime", "A19_timeout_capped"}},
	{"W15", "only a probe guards ids", "ids are object names, and the bus confirms the owner", []string{"D05_same_id_at_once", "D06_id_of_another_worker"}},
	{"W16", "a poller every 2 s", "one poller that slows down when idle: the daemon sends no events", []string{"J11_fleet_changes", "sandbox/fleet TestWatcher_rate"}},
	{"W17", "a duplicate registration ends the worker", "refused; the worker goes on", []string{"D05_same_id_at_once", "D25_same_id_in_two_languages"}},
	{"W18", "a stale list", "the list is read from what the watcher last saw", []string{"H08_vm_gone"}},

	{"R1", "the default escapes the maximum", "capped like every limit", []string{"A21_default_capped_by_maximum"}},
	{"R2", "the text forbids a second language", "the text says that a namespace may have both", []string{"D03_second_language", "K03_typed_schemas"}},
	{"R3", "the teardown schema accepts none and both", "one of the two", []string{"C03_schema_is_one_of"}},
	{"R4", "a list row without stopped counts as dead", "this suite fails on it", []string{"H09_row_without_stopped"}},
	{"R5", "an endless animation", "there is no console", nil},
	{"R6", "state of test runs in the home folder", "one temporary folder that goes with the run", []string{"hack/conformance/runner TestRun_leavesNothing"}},
	{"R7", "input before output can deadlock a harness", "the callers' program is read all the time", []string{"F26_large_envelope_and_output"}},
	{"R8", "a console helper can crash its redactor", "there is no console", nil},
	{"R9", "words of an older name", "none", []string{"K09_guidance_text"}},
	{"R10", "documentation that is not true", "examples in docs/ are run by tests", []string{"hack/e2e TestEndToEnd"}},

	{"X1", "the list hands out all ids", "ids for their maker only", []string{"H13_list_authorization", "H04_list_content"}},
	{"X2", "events hand out all ids", "references", []string{"J01_kept_run", "J11_fleet_changes"}},
	{"X3", "endless queues", "bounded in length and time; a teardown ends what waits", []string{"B19_bounded_queue_wait"}},
	{"X4", "a call may take far longer than its limit", "the limit counts from the call's arrival; runs tell their stages", []string{"E03_time_limit"}},
	{"X5", "no warm sandboxes", "one-shot runs boot a sandbox each; there is no pool", nil},
	{"X6", "a timeout loses all output", "what was printed is in the error's details", []string{"A27_one_shot_passes_deadline"}},
	{"X7", "a finished result is lost", "it counts as soon as it is complete", []string{"E15_thread_keeps_the_process", "E16_crash_after_the_result"}},
	{"X8", "no cap of output", "capped with marks; results go their own way", []string{"A40_endless_output", "E19_large_output"}},
	{"X9", "one limit for all functions", "timeout_ms at registration", []string{"E03_time_limit"}},
	{"X10", "sources are not checked", "loaded at registration", []string{"F05_no_handler", "D21_source_without_handler"}},
	{"X11", "a refused registration leaves a sandbox", "nothing is left", []string{"D20_refused_leaves_no_sandbox"}},
	{"X12", "functions have no schemas", "request_format and response_format", []string{"D27_formats"}},
	{"X13", "run files stay", "removed with the run", []string{"B05_variables_go"}},
	{"X14", "callers that leave leave sandboxes", "a run ends with its caller", []string{"A33_caller_disconnects"}},
	{"X15", "raw texts may have ids", "every text is scrubbed", []string{"A28_sandbox_lost_during_run", "bus/shim TestScrub"}},
	{"X16", "the error object is searched by its brace", "decoded, with any text around it", []string{"I07_other_codes", "I08_text_without_object"}},
	{"X17", "the probe is read by substring", "by its code", []string{"I09_probe_texts", "D08_probe_unknown"}},
	{"X18", "a deadline of the bus becomes engine", "timeout", []string{"I13_bus_deadline"}},
	{"X19", "error texts differ by language", "type, message and stack in both", []string{"E06_handler_throws"}},
	{"X20", "a vague no result", "the exit code or the promise is named", []string{"F15_handler_exits_with_zero", "F17_promise_never_settles"}},
	{"X21", "the SDK is loaded by every process", "at its first use", []string{"G01_no_use_no_connection"}},
	{"X22", "introspection connects", "only calls connect", []string{"G16_conversions_and_probes"}},
	{"X23", "wrapper files shadow packages", "the program's folder comes first, names of ours are unlikely", []string{"G20_import_path"}},
	{"X24", "Python's shutdown has no limit", "bounded", []string{"G17_shutdown_hangs"}},
	{"X25", "all guests share one name", "each process has its own", []string{"B16_worker_name", "E04_worker_name"}},
	{"X26", "other namespaces can be squatted", "reserved prefixes, and a namespace has one owner", []string{"D11_own_ids_reserved", "D12_late_ids_reserved"}},
	{"X27", "no update of a function", "replace", []string{"D24_registering_again"}},
	{"X28", "few events", "failures and withdrawals too, with sequence and time", []string{"J02_one_shot", "J05_namespace_of_two_languages"}},
	{"X29", "a teardown that fails midway forgets", "repeatable: what is on its way out is named again", []string{"C14_runtime_vanished_meanwhile", "bus/shim TestTeardownPrefix_givesUpAndCanBeRepeated"}},
	{"X30", "the console redacts runtime ids only", "there is no console", nil},
}
