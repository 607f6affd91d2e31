package namespaces

import (
	"slices"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// namespaceFlags are the bits of clone that make namespaces.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// programPolicies are the filters of the guest's programs, of which the kernel
// takes the strictest answer: a list of what is allowed, the rest failing with
// EPERM, and one filter for each call whose arguments matter.
//
// The list is what container runtimes allow a process without capabilities. Not
// among it: mounting, tracing, namespaces, keys, io_uring, bpf, userfaultfd,
// kernel modules and all that concerns the machine.
//
// A filter may look at the arguments of one call only: after a comparison that
// failed, the library compares the argument, no longer the call, with what
// follows.
func programPolicies() []seccomp.Policy {
	allowed := slices.Concat(fileCalls, memoryCalls, processCalls, timeCalls, networkCalls, architectureCalls)
	return []seccomp.Policy{
		refuseWhere("clone", seccomp.ArgumentConditions{
			{Argument: 0, Operation: seccomp.BitsSet, Value: namespaceFlags},
		}),
		// Not among these: a virtual machine's host, the kernel's crypto, raw packets.
		refuseWhere("socket", allBut(unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)),
		// The harmless ones: Linux, its uname variants and the question what it is.
		refuseWhere("personality", allBut(0, 0x8, 0x20000, 0x20008, 0xffffffff)),
		{
			DefaultAction: seccomp.ActionErrno,
			Syscalls: []seccomp.SyscallGroup{
				// Its flags are in memory, where a filter cannot look; programs
				// answer "not there" by calling clone.
				{Names: []string{"clone3"}, Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
				{Names: knownCalls(allowed), Action: seccomp.ActionAllow},
			},
		},
	}
}

func refuseWhere(name string, conditions seccomp.ArgumentConditions) seccomp.Policy {
	return seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls: []seccomp.SyscallGroup{{
			NamesWithCondtions: []seccomp.NameWithConditions{{Name: name, Conditions: conditions}},
			Action:             seccomp.ActionErrno,
		}},
	}
}

// allBut holds for a first argument that is none of the values.
func allBut(values ...uint64) seccomp.ArgumentConditions {
	var conditions seccomp.ArgumentConditions
	for _, value := range values {
		conditions = append(conditions, seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: value})
	}
	return conditions
}

// knownCalls leaves out what this processor's table does not have.
func knownCalls(names []string) []string {
	info, err := arch.GetInfo("")
	if err != nil {
		return names // loading the filter reports it
	}
	return slices.DeleteFunc(names, func(name string) bool {
		_, known := info.SyscallNames[name]
		return !known
	})
}

var fileCalls = []string{
	"access", "chdir", "chmod", "chown", "close", "close_range", "copy_file_range", "creat", "dup", "dup2", "dup3",
	"epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd", "eventfd2",
	"faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown",
	"fchownat", "fcntl", "fdatasync", "fgetxattr", "flistxattr", "flock", "fremovexattr", "fsetxattr", "fstat",
	"fstatfs", "fsync", "ftruncate", "futimesat", "getcwd", "getdents", "getdents64", "getxattr", "getxattrat", "ioctl",
	"inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "io_cancel", "io_destroy",
	"io_getevents", "io_pgetevents", "io_setup", "io_submit", "lchown", "lgetxattr", "link", "linkat", "listxattr",
	"listxattrat", "llistxattr", "lremovexattr", "lseek", "lsetxattr", "lstat", "mkdir", "mkdirat", "mknod",
	"mknodat", "newfstatat", "open", "openat", "openat2", "pipe", "pipe2", "poll", "ppoll", "pread64", "preadv",
	"preadv2", "pselect6", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv",
	"removexattr", "removexattrat", "rename", "renameat", "renameat2", "rmdir", "select", "sendfile", "setxattr",
	"setxattrat", "signalfd", "signalfd4", "splice", "stat", "statfs", "statx", "symlink", "symlinkat", "sync",
	"sync_file_range", "syncfs", "tee", "truncate", "umask", "unlink", "unlinkat", "utime", "utimensat", "utimes",
	"vmsplice", "write", "writev",
}

var memoryCalls = []string{
	"brk", "cachestat", "get_mempolicy", "madvise", "map_shadow_stack", "mbind", "membarrier", "memfd_create",
	"memfd_secret", "mincore", "mlock", "mlock2", "mlockall", "mmap", "mprotect", "mremap", "mseal", "msgctl",
	"msgget", "msgrcv", "msgsnd", "msync", "munlock", "munlockall", "munmap", "pkey_alloc", "pkey_free",
	"pkey_mprotect", "process_madvise", "process_mrelease", "remap_file_pages", "semctl", "semget", "semop",
	"semtimedop", "set_mempolicy", "set_mempolicy_home_node", "shmat", "shmctl", "shmdt", "shmget",
	"mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink",
}

var processCalls = []string{
	"capget", "capset", "clone", "execve", "execveat", "exit", "exit_group", "fork", "futex", "futex_requeue", "futex_wait",
	"futex_waitv", "futex_wake", "get_robust_list", "get_thread_area", "getcpu", "getegid", "geteuid", "getgid",
	"getgroups", "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getrandom", "getresgid", "getresuid",
	"getrlimit", "getrusage", "getsid", "gettid", "getuid", "ioprio_get", "ioprio_set", "kill",
	"landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "pause", "personality", "pidfd_open",
	"pidfd_send_signal", "prctl", "prlimit64", "restart_syscall", "rseq", "rt_sigaction", "rt_sigpending",
	"rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo",
	"sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
	"sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_setattr", "sched_setparam",
	"sched_setscheduler", "sched_yield", "seccomp", "set_robust_list", "set_thread_area", "set_tid_address",
	"setfsgid", "setfsuid", "setgid", "setgroups", "setpgid", "setpriority", "setregid", "setresgid", "setresuid",
	"setreuid", "setrlimit", "setsid", "setuid", "sigaltstack", "sysinfo", "tgkill", "times", "tkill", "uname",
	"vfork", "wait4", "waitid",
}

var timeCalls = []string{
	"alarm", "clock_getres", "clock_gettime", "clock_nanosleep", "getitimer", "gettimeofday", "nanosleep",
	"setitimer", "time", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime",
	"timerfd_create", "timerfd_gettime", "timerfd_settime",
}

var networkCalls = []string{
	"accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recvfrom",
	"recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown", "socket", "socketpair",
}

var architectureCalls = []string{"arch_prctl", "riscv_flush_icache", "riscv_hwprobe"}
