package protocol

// Error codes on the wire (contracts/iii-bus.md §11).
const (
	CodeFunctionNotFound          = "function_not_found"
	CodeFunctionNotInvokable      = "function_not_invokable"
	CodeInvocationFailed          = "invocation_failed"
	CodeInvocationStopped         = "invocation_stopped"
	CodeInvocationError           = "invocation_error"
	CodeChannelSendFailed         = "channel_send_failed"
	CodeEnqueueError              = "enqueue_error"
	CodeSerializationError        = "serialization_error"
	CodeDeserializationError      = "deserialization_error"
	CodeInvalidRequest            = "invalid_request"
	CodeInvalidNamespace          = "INVALID_NAMESPACE"
	CodeInvalidArguments          = "INVALID_ARGUMENTS"
	CodeForbidden                 = "FORBIDDEN"
	CodeAuthError                 = "AUTH_ERROR"
	CodeNotFound                  = "NOT_FOUND"
	CodeTriggerRegistrationFailed = "trigger_registration_failed"
	CodeTriggerTypeNotFound       = "trigger_type_not_found"
	CodeUnregisterFailed          = "unregister_failed"
	CodeTopicNotSet               = "topic_not_set"
	CodeQueueNotSet               = "queue_not_set"
	CodeMessageIDNotSet           = "message_id_not_set"
	CodeSetError                  = "SET_ERROR"
	CodeGetError                  = "GET_ERROR"
	CodeDeleteError               = "DELETE_ERROR"
	CodeUpdateError               = "UPDATE_ERROR"
	CodeListError                 = "LIST_ERROR"
	CodeListGroupsError           = "LIST_GROUPS_ERROR"
	CodeValueTooLarge             = "VALUE_TOO_LARGE"

	CodeWorkerConflict   = "WORKER_NAMESPACE_CONFLICT"
	CodeFunctionConflict = "FUNCTION_NAMESPACE_CONFLICT"
)

// DefaultNamespace is the namespace of whoever names none.
const DefaultNamespace = "default"

// Ids of engine functions (contracts/iii-bus.md §7).
const (
	FunctionWorkersRegister   = "engine::workers::register"
	FunctionWorkersList       = "engine::workers::list"
	FunctionWorkersInfo       = "engine::workers::info"
	FunctionFunctionsList     = "engine::functions::list"
	FunctionFunctionsInfo     = "engine::functions::info"
	FunctionTriggersList      = "engine::triggers::list"
	FunctionTriggersInfo      = "engine::triggers::info"
	FunctionRegisteredList    = "engine::registered-triggers::list"
	FunctionRegisteredInfo    = "engine::registered-triggers::info"
	FunctionChannelsCreate    = "engine::channels::create"
	FunctionRegisterTrigger   = "engine::register_trigger"
	FunctionUnregisterTrigger = "engine::unregister_trigger"
	FunctionDurablePublish    = "iii::durable::publish"
)

// Directions of a ChannelRef.
const (
	DirectionRead  = "read"
	DirectionWrite = "write"
)

// ChannelRef names one end of a data channel; with it anybody may take that
// end (contracts/iii-bus.md §8).
type ChannelRef struct {
	ChannelID string `json:"channel_id"`
	AccessKey string `json:"access_key"`
	Direction string `json:"direction"`
}

// String hides the key, which is a secret.
func (r ChannelRef) String() string { return "channel " + r.Direction + " end (redacted)" }

// GoString hides the key.
func (r ChannelRef) GoString() string { return r.String() }

// ChannelPair is the answer of FunctionChannelsCreate.
type ChannelPair struct {
	Writer ChannelRef `json:"writer"`
	Reader ChannelRef `json:"reader"`
}
