package linux

import "syscall"

// Errno is Linux's number of an error of this system's, 0 if Linux has none
// like it.
func Errno(e syscall.Errno) int {
	if here {
		return int(e)
	}
	return errnoOf(e)
}

func errnoOf(e syscall.Errno) int {
	for n := range errnos {
		if errnos[n].local == e {
			return n
		}
	}
	return 0
}

// LocalErrno is this system's error of Linux's number, 0 if it has none like
// it.
func LocalErrno(n int) syscall.Errno {
	switch {
	case here:
		return syscall.Errno(n)
	case n < 0 || n > lastErrno:
		return 0
	}
	return errnos[n].local
}

// ErrnoName is the name, as "ENOENT", of an error by Linux's number; "" if it
// has none.
func ErrnoName(n int) string {
	if n < 0 || n > lastErrno {
		return ""
	}
	return errnos[n].name
}

// ErrnoNamed is Linux's number of an error by its name, 0 if there is none of
// that name.
func ErrnoNamed(name string) int {
	for n := range errnos {
		if errnos[n].name == name {
			return n
		}
	}
	return 0
}

type errno struct {
	name  string
	local syscall.Errno // 0 if not every system has it, but for Linux: see LocalErrno
}

const lastErrno = 134

// errnos are at Linux's numbers. Those with a local one are the ones that
// every system has for which this is built.
var errnos = [lastErrno + 1]errno{
	1:   {"EPERM", syscall.EPERM},
	2:   {"ENOENT", syscall.ENOENT},
	3:   {"ESRCH", syscall.ESRCH},
	4:   {"EINTR", syscall.EINTR},
	5:   {"EIO", syscall.EIO},
	6:   {"ENXIO", syscall.ENXIO},
	7:   {"E2BIG", syscall.E2BIG},
	8:   {"ENOEXEC", syscall.ENOEXEC},
	9:   {"EBADF", syscall.EBADF},
	10:  {"ECHILD", syscall.ECHILD},
	11:  {"EAGAIN", syscall.EAGAIN},
	12:  {"ENOMEM", syscall.ENOMEM},
	13:  {"EACCES", syscall.EACCES},
	14:  {"EFAULT", syscall.EFAULT},
	15:  {"ENOTBLK", syscall.ENOTBLK},
	16:  {"EBUSY", syscall.EBUSY},
	17:  {"EEXIST", syscall.EEXIST},
	18:  {"EXDEV", syscall.EXDEV},
	19:  {"ENODEV", syscall.ENODEV},
	20:  {"ENOTDIR", syscall.ENOTDIR},
	21:  {"EISDIR", syscall.EISDIR},
	22:  {"EINVAL", syscall.EINVAL},
	23:  {"ENFILE", syscall.ENFILE},
	24:  {"EMFILE", syscall.EMFILE},
	25:  {"ENOTTY", syscall.ENOTTY},
	26:  {"ETXTBSY", syscall.ETXTBSY},
	27:  {"EFBIG", syscall.EFBIG},
	28:  {"ENOSPC", syscall.ENOSPC},
	29:  {"ESPIPE", syscall.ESPIPE},
	30:  {"EROFS", syscall.EROFS},
	31:  {"EMLINK", syscall.EMLINK},
	32:  {"EPIPE", syscall.EPIPE},
	33:  {"EDOM", syscall.EDOM},
	34:  {"ERANGE", syscall.ERANGE},
	35:  {"EDEADLK", syscall.EDEADLK},
	36:  {"ENAMETOOLONG", syscall.ENAMETOOLONG},
	37:  {"ENOLCK", syscall.ENOLCK},
	38:  {"ENOSYS", syscall.ENOSYS},
	39:  {"ENOTEMPTY", syscall.ENOTEMPTY},
	40:  {"ELOOP", syscall.ELOOP},
	42:  {"ENOMSG", syscall.ENOMSG},
	43:  {"EIDRM", syscall.EIDRM},
	44:  {"ECHRNG", 0},
	45:  {"EL2NSYNC", 0},
	46:  {"EL3HLT", 0},
	47:  {"EL3RST", 0},
	48:  {"ELNRNG", 0},
	49:  {"EUNATCH", 0},
	50:  {"ENOCSI", 0},
	51:  {"EL2HLT", 0},
	52:  {"EBADE", 0},
	53:  {"EBADR", 0},
	54:  {"EXFULL", 0},
	55:  {"ENOANO", 0},
	56:  {"EBADRQC", 0},
	57:  {"EBADSLT", 0},
	59:  {"EBFONT", 0},
	60:  {"ENOSTR", 0},
	61:  {"ENODATA", 0},
	62:  {"ETIME", 0},
	63:  {"ENOSR", 0},
	64:  {"ENONET", 0},
	65:  {"ENOPKG", 0},
	66:  {"EREMOTE", syscall.EREMOTE},
	67:  {"ENOLINK", syscall.ENOLINK},
	68:  {"EADV", 0},
	69:  {"ESRMNT", 0},
	70:  {"ECOMM", 0},
	71:  {"EPROTO", syscall.EPROTO},
	72:  {"EMULTIHOP", syscall.EMULTIHOP},
	73:  {"EDOTDOT", 0},
	74:  {"EBADMSG", syscall.EBADMSG},
	75:  {"EOVERFLOW", syscall.EOVERFLOW},
	76:  {"ENOTUNIQ", 0},
	77:  {"EBADFD", 0},
	78:  {"EREMCHG", 0},
	79:  {"ELIBACC", 0},
	80:  {"ELIBBAD", 0},
	81:  {"ELIBSCN", 0},
	82:  {"ELIBMAX", 0},
	83:  {"ELIBEXEC", 0},
	84:  {"EILSEQ", syscall.EILSEQ},
	85:  {"ERESTART", 0},
	86:  {"ESTRPIPE", 0},
	87:  {"EUSERS", syscall.EUSERS},
	88:  {"ENOTSOCK", syscall.ENOTSOCK},
	89:  {"EDESTADDRREQ", syscall.EDESTADDRREQ},
	90:  {"EMSGSIZE", syscall.EMSGSIZE},
	91:  {"EPROTOTYPE", syscall.EPROTOTYPE},
	92:  {"ENOPROTOOPT", syscall.ENOPROTOOPT},
	93:  {"EPROTONOSUPPORT", syscall.EPROTONOSUPPORT},
	94:  {"ESOCKTNOSUPPORT", syscall.ESOCKTNOSUPPORT},
	95:  {"ENOTSUP", syscall.ENOTSUP},
	96:  {"EPFNOSUPPORT", syscall.EPFNOSUPPORT},
	97:  {"EAFNOSUPPORT", syscall.EAFNOSUPPORT},
	98:  {"EADDRINUSE", syscall.EADDRINUSE},
	99:  {"EADDRNOTAVAIL", syscall.EADDRNOTAVAIL},
	100: {"ENETDOWN", syscall.ENETDOWN},
	101: {"ENETUNREACH", syscall.ENETUNREACH},
	102: {"ENETRESET", syscall.ENETRESET},
	103: {"ECONNABORTED", syscall.ECONNABORTED},
	104: {"ECONNRESET", syscall.ECONNRESET},
	105: {"ENOBUFS", syscall.ENOBUFS},
	106: {"EISCONN", syscall.EISCONN},
	107: {"ENOTCONN", syscall.ENOTCONN},
	108: {"ESHUTDOWN", syscall.ESHUTDOWN},
	109: {"ETOOMANYREFS", syscall.ETOOMANYREFS},
	110: {"ETIMEDOUT", syscall.ETIMEDOUT},
	111: {"ECONNREFUSED", syscall.ECONNREFUSED},
	112: {"EHOSTDOWN", syscall.EHOSTDOWN},
	113: {"EHOSTUNREACH", syscall.EHOSTUNREACH},
	114: {"EALREADY", syscall.EALREADY},
	115: {"EINPROGRESS", syscall.EINPROGRESS},
	116: {"ESTALE", syscall.ESTALE},
	117: {"EFSCORRUPTED", 0},
	118: {"ENOTNAM", 0},
	119: {"ENAVAIL", 0},
	120: {"EISNAM", 0},
	121: {"EREMOTEIO", 0},
	122: {"EDQUOT", syscall.EDQUOT},
	123: {"ENOMEDIUM", 0},
	124: {"EMEDIUMTYPE", 0},
	125: {"ECANCELED", syscall.ECANCELED},
	126: {"ENOKEY", 0},
	127: {"EKEYEXPIRED", 0},
	128: {"EKEYREVOKED", 0},
	129: {"EKEYREJECTED", 0},
	130: {"EOWNERDEAD", syscall.EOWNERDEAD},
	131: {"ENOTRECOVERABLE", syscall.ENOTRECOVERABLE},
	132: {"ERFKILL", 0},
	133: {"EHWPOISON", 0},
	134: {"EFTYPE", 0},
}
