/* Preloaded into a program: counts its file calls below one folder, over all threads, and at a
 * chosen one kills the process, or lets the call fail. Armed by `crash_arm`, or by the environment
 * (CRASH_DIR, CRASH_AT, CRASH_MODE, FAIL_AT, FAIL_FROM, FAIL_WITH, and CRASH_KINDS: a file that
 * the calls go to at the end; or CRASH_SETTINGS: a file of such lines) when it begins; one that is forked from a warm one says itself when
 * it begins and ends. By itself the shim does nothing. `crash_trace` also writes down every call,
 * for a model to replay; CRASH_TRACE names a file for it, which the programs that this one starts
 * write to as well; a write stands there with its place in the file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NEVER, BEFORE, AFTER, TORN };
enum { SHORT = -1 };
#define KINDS_MAX 100000

static char folder[4096], kinds[KINDS_MAX];
static long calls, crash_at, fail_at, fail_from, failures;
static int how, fail_with, trace_fd = -1;

void crash_arm(const char *below, long at, int mode, long once, long from, int number) {
    snprintf(folder, sizeof folder, "%s", below);
    calls = failures = 0;
    crash_at = at, how = mode, fail_at = once, fail_from = from, fail_with = number;
    memset(kinds, 0, sizeof kinds);
}
void crash_stop_failing(void) { fail_at = fail_from = 0; }
const char *crash_kinds(void) { return kinds; }
long crash_failures(void) { return failures; }
void crash_trace(int fd) { trace_fd = fd; }

#define REAL(type, name, ...) \
    static type (*real_##name)(__VA_ARGS__); \
    if (!real_##name) real_##name = dlsym(RTLD_NEXT, #name)

static void die(void) { for (kill(getpid(), SIGKILL);;) pause(); }

/* What can fail with which error; kinds: c create, o open, w write, s sync, d sync of a folder,
 * r rename, l link, u unlink, t truncate, m make a folder. */
static int can_fail(char kind) {
    const char *may = fail_with == EIO ? "cowsdrlutm" : fail_with == ENOSPC ? "cwsdrlm"
        : fail_with == EMFILE ? "co" : fail_with == EROFS ? "cwsrlutm"
        : fail_with == SHORT ? "w" : "";
    return strchr(may, kind) != NULL;
}

/* The path from the root on; git names what is in a repository from its work tree on. */
static const char *whole(const char *path, char *space, size_t size) {
    if (!path || path[0] == '/' || !getcwd(space, size)) return path;
    size_t length = strlen(space);
    snprintf(space + length, size - length, "/%s", path);
    return space;
}
#define WHOLE(path) char path##_space[8192]; path = whole(path, path##_space, sizeof path##_space)

static int is_below(const char *path) {
    size_t size = strlen(folder);
    return size && path && !strncmp(path, folder, size) && (path[size] == '/' || !path[size]);
}

static int path_of(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t got = readlink(link, path, size - 1);
    path[got < 0 ? 0 : got] = 0;
    return is_below(path);
}

/* The number of the call, or 0 if it is not one of ours. Sets `fails` to what it is to fail with. */
static long begin(char kind, int *fails) {
    long number = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    if (number < KINDS_MAX) kinds[number - 1] = kind;
    if (number == crash_at && (how == BEFORE || (how == TORN && kind != 'w'))) die();
    int due = number == fail_at || (fail_from && number >= fail_from);
    *fails = due && can_fail(kind) ? fail_with : 0;
    failures += *fails != 0;
    return number;
}

static void end(long number, int ok, char kind, const char *path, const char *to,
                const void *data, size_t size) {
    if (trace_fd >= 0 && ok) {
        char line[9000];
        int length = snprintf(line, sizeof line, "%c\t%s\t%s\t%zu\n", kind, path, to, size);
        struct iovec parts[] = {{line, length}, {(void *) data, data ? size : 0}};
        if (writev(trace_fd, parts, 2) < 0) die(); /* at once: others may write there too */
    }
    if (number == crash_at && how == AFTER) die();
}

/* In the same stream as the calls, so that their order is known. */
void crash_note(const char *data, size_t size) { end(0, 1, 'n', "", "", data, size); }

#define GUARD(kind, perform, path, to, data, size) \
    int fails; long number = begin(kind, &fails); \
    if (fails) { errno = fails; return -1; } \
    int result = perform; \
    end(number, result >= 0, kind, path, to, data, size); \
    return result

static int opened(int (*real)(const char *, int, ...), const char *path, int flags, mode_t mode) {
    WHOLE(path);
    if (!is_below(path)) return real(path, flags, mode);
    int is_new = (flags & O_CREAT) && access(path, F_OK) != 0;
    int is_emptied = !is_new && (flags & O_TRUNC);
    GUARD(is_new ? 'c' : 'o', real(path, flags, mode), path, is_emptied ? "emptied" : "", NULL, 0);
}
#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, name, const char *, int, ...); \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        return opened(real_##name, path, flags, mode); }
OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t);
    char path[4096];
    if (fd == trace_fd || !path_of(fd, path, sizeof path)) return real_write(fd, data, size);
    int fails; long number = begin('w', &fails);
    if (number == crash_at && how == TORN) { real_write(fd, data, size / 2); die(); }
    if (fails && fails != SHORT) { errno = fails; return -1; }
    ssize_t done = real_write(fd, data, fails && size > 1 ? size / 2 : size);
    char place[32] = "";
    if (trace_fd >= 0 && done >= 0)
        snprintf(place, sizeof place, "%lld", (long long) (lseek(fd, 0, SEEK_CUR) - done));
    end(number, done >= 0, 'w', path, place, data, done < 0 ? 0 : done);
    return done;
}

/* Not counted: SQLite writes by it too. git writes over the head of a pack. */
static ssize_t written(ssize_t (*real)(int, const void *, size_t, off_t), int fd,
                       const void *data, size_t size, off_t at) {
    char path[4096], place[32];
    ssize_t done = real(fd, data, size, at);
    if (trace_fd < 0 || done < 0 || !path_of(fd, path, sizeof path)) return done;
    snprintf(place, sizeof place, "%lld", (long long) at);
    end(NEVER - 1, strstr(path, "/.git/") != NULL, 'w', path, place, data, done);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    return written(real_pwrite, fd, data, size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off_t);
    return written(real_pwrite64, fd, data, size, at);
}

#define ON_HANDLE(name, kind, arguments, ...) \
    REAL(int, name, __VA_ARGS__); \
    char path[4096]; \
    if (!path_of(fd, path, sizeof path)) return real_##name arguments; \
    GUARD(kind, real_##name arguments, path, "", NULL, 0)

static char kind_of(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISDIR(status.st_mode) ? 'd' : 's';
}
int fsync(int fd) { ON_HANDLE(fsync, kind_of(fd), (fd), int); }
int fdatasync(int fd) { ON_HANDLE(fdatasync, 's', (fd), int); }

static int truncated(int (*real)(int, off_t), int fd, off_t size) {
    char path[4096];
    if (!path_of(fd, path, sizeof path)) return real(fd, size);
    GUARD('t', real(fd, size), path, "", NULL, size);
}
int ftruncate(int fd, off_t size) {
    REAL(int, ftruncate, int, off_t);
    return truncated(real_ftruncate, fd, size);
}
int ftruncate64(int fd, off64_t size) {
    REAL(int, ftruncate64, int, off64_t);
    return truncated(real_ftruncate64, fd, size);
}

#define ON_PATH(name, kind, to, arguments, ...) \
    REAL(int, name, __VA_ARGS__); \
    WHOLE(path); \
    if (!is_below(path)) return real_##name arguments; \
    GUARD(kind, real_##name arguments, path, to, NULL, 0)

int rename(const char *path, const char *to) {
    WHOLE(to);
    ON_PATH(rename, 'r', to, (path, to), const char *, const char *);
}
int link(const char *path, const char *to) {
    WHOLE(to);
    ON_PATH(link, 'l', to, (path, to), const char *, const char *);
}
int unlink(const char *path) { ON_PATH(unlink, 'u', "", (path), const char *); }
int mkdir(const char *path, mode_t mode) { ON_PATH(mkdir, 'm', "", (path, mode), const char *, mode_t); }

/* The same, for paths that stand below an open folder. */
static const char *below(int at, const char *path, char *space, size_t size) {
    if (!path || path[0] == '/' || at == AT_FDCWD) return whole(path, space, size);
    path_of(at, space, size);
    size_t length = strlen(space);
    snprintf(space + length, size - length, "/%s", path);
    return space;
}
static int opened_at(int (*real)(int, const char *, int, ...), int at, const char *name, int flags,
                     mode_t mode) {
    char space[8192];
    const char *path = below(at, name, space, sizeof space);
    if (!(flags & O_CREAT) || !is_below(path)) return real(at, name, flags, mode);
    GUARD(access(path, F_OK) ? 'c' : 'o', real(at, name, flags, mode), path, "", NULL, 0);
}
#define OPEN_AT(name) \
    int name(int at, const char *path, int flags, ...) { \
        REAL(int, name, int, const char *, int, ...); \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        return opened_at(real_##name, at, path, flags, mode); }
OPEN_AT(openat)
OPEN_AT(openat64)

int renameat(int at, const char *name, int to_at, const char *to_name) {
    REAL(int, renameat, int, const char *, int, const char *);
    char space[8192], to_space[8192];
    const char *path = below(at, name, space, sizeof space);
    const char *to = below(to_at, to_name, to_space, sizeof to_space);
    if (!is_below(path)) return real_renameat(at, name, to_at, to_name);
    GUARD('r', real_renameat(at, name, to_at, to_name), path, to, NULL, 0);
}
int unlinkat(int at, const char *name, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    char space[8192];
    const char *path = below(at, name, space, sizeof space);
    if (!is_below(path)) return real_unlinkat(at, name, flags);
    GUARD('u', real_unlinkat(at, name, flags), path, "", NULL, 0);
}

/* What arms a program from its start: variables, or lines NAME=VALUE of the file CRASH_SETTINGS, for
 * programs to which their environment matters. */
static char settings[4096];
static void read_settings(void) {
    const char *path = getenv("CRASH_SETTINGS");
    FILE *file = path ? fopen(path, "r") : NULL;
    size_t size = file ? fread(settings, 1, sizeof settings - 1, file) : 0;
    settings[size] = 0;
    if (file) fclose(file);
    for (char *end = settings; (end = strchr(end, '\n'));) *end++ = 0;
}
static const char *setting(const char *name) {
    const char *value = getenv(name);
    size_t size = strlen(name);
    for (const char *line = settings; !value && *line; line += strlen(line) + 1)
        if (!strncmp(line, name, size) && line[size] == '=') value = line + size + 1;
    return value;
}
static long number_of(const char *name) {
    const char *text = setting(name);
    return text ? atol(text) : 0;
}
__attribute__((constructor)) void crash_begin(void) {
    read_settings();
    const char *below = setting("CRASH_DIR");
    if (below)
        crash_arm(below, number_of("CRASH_AT"), number_of("CRASH_MODE"), number_of("FAIL_AT"),
                  number_of("FAIL_FROM"), number_of("FAIL_WITH"));
    const char *path = setting("CRASH_TRACE");
    REAL(int, open, const char *, int, ...);
    int fd = path ? real_open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) trace_fd = fcntl(fd, F_DUPFD_CLOEXEC, 500), close(fd); /* shells use low ones */
}
__attribute__((destructor)) void crash_end(void) {
    const char *path = setting("CRASH_KINDS");
    FILE *file = path && calls ? fopen(path, "w") : NULL;
    if (file) { fputs(kinds, file); fclose(file); }
}
