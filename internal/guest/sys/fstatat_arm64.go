package sys

import "syscall"

const sysFstatat = syscall.SYS_FSTATAT
