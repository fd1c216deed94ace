/* The first and only program of a guest's initramfs: loads the modules that the root file system
 * needs, makes the host's file tree the root (read-only, with memory where one writes), runs the
 * command, tells its exit status, and powers the machine off. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define ROOT "/host"
/* The first serial line is the kernel's. */
#if defined(__aarch64__)
#define OUTPUT "/dev/hvc0"
#else
#define OUTPUT "/dev/ttyS1"
#endif

/* include/uapi/linux/module.h */
#define IGNORE_SYMBOL_VERSIONS 1

static void say(const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
}

/* The last line that the host reads; without it, the guest did not come to its end. */
static _Noreturn void end(int status) {
    say("\nguest: exit %d\n", status);
    tcdrain(STDOUT_FILENO); /* before the machine is gone */
    reboot(RB_POWER_OFF);
    for (;;)
        pause();
}

static _Noreturn void die(const char *what, const char *which) {
    say("guest: cannot %s %s: %s\n", what, which, strerror(errno));
    end(120);
}

static void mount_or_die(const char *source, const char *target, const char *type,
                         unsigned long flags, const char *options) {
    if (mount(source, target, type, flags, options))
        die("mount", target);
}

static void load_modules(void) {
    FILE *list = fopen("/modules/list", "re");
    char name[256];

    if (!list)
        die("open", "/modules/list");
    while (fgets(name, sizeof(name), list)) {
        char path[300];
        int fd;

        name[strcspn(name, "\n")] = '\0';
        snprintf(path, sizeof(path), "/modules/%s", name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            die("open", path);
        if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST)
            die("load", path);
        close(fd);
    }
    fclose(list);
}

/* Another machine's guest has its own root, and only the checkout of the host's tree. */
static void mount_checkout(void) {
    char line[4096] = "", path[4096] = ROOT, *at;
    FILE *file = fopen(ROOT "/proc/cmdline", "re");

    if (!file || !fgets(line, sizeof(line), file))
        die("read", ROOT "/proc/cmdline");
    fclose(file);
    at = strstr(line, "checkout=");
    if (!at)
        return;
    at += strlen("checkout=");
    at[strcspn(at, " \n")] = '\0';
    strncat(path, at, sizeof(path) - strlen(path) - 1);
    mount_or_die("checkout", path, "9p", MS_RDONLY,
                 "trans=virtio,version=9p2000.L,msize=1048576,cache=loose");
}

static void mount_root(void) {
    static const char *const writable[] = {"/tmp", "/run", "/var/tmp"};

    mkdir(ROOT, 0755);
    /* The tree does not change while a guest runs, so it may be cached. */
    mount_or_die("hostroot", ROOT, "9p", MS_RDONLY,
                 "trans=virtio,version=9p2000.L,msize=1048576,cache=loose");
    for (size_t i = 0; i < sizeof(writable) / sizeof(*writable); i++) {
        char path[64];

        snprintf(path, sizeof(path), ROOT "%s", writable[i]);
        mount_or_die("tmpfs", path, "tmpfs", 0, "mode=1777");
    }
    mount_or_die("/dev", ROOT "/dev", NULL, MS_BIND, NULL);
    mount_or_die("proc", ROOT "/proc", "proc", 0, NULL);
    mount_checkout();
    mount_or_die("sysfs", ROOT "/sys", "sysfs", 0, NULL);
    mount_or_die("cgroup2", ROOT "/sys/fs/cgroup", "cgroup2", 0, NULL);
    mount_or_die("bpf", ROOT "/sys/fs/bpf", "bpf", 0, NULL);
    mount_or_die("securityfs", ROOT "/sys/kernel/security", "securityfs", 0, NULL);
    mount_or_die("debugfs", ROOT "/sys/kernel/debug", "debugfs", 0, NULL);
    mount_or_die("tracefs", ROOT "/sys/kernel/tracing", "tracefs", 0, NULL);
    mkdir(ROOT "/dev/shm", 01777);
    mkdir(ROOT "/dev/pts", 0755);
    mount_or_die("tmpfs", ROOT "/dev/shm", "tmpfs", 0, "mode=1777");
    mount_or_die("devpts", ROOT "/dev/pts", "devpts", 0, NULL);
    symlink("/proc/self/fd", ROOT "/dev/fd");
    /* The command is not part of the host's tree. */
    int in = open("/command", O_RDONLY | O_CLOEXEC);
    int out = open(ROOT "/run/command", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    char bytes[65536];
    ssize_t size;

    if (in < 0 || out < 0)
        die("copy", "/command");
    while ((size = read(in, bytes, sizeof(bytes))) > 0)
        if (write(out, bytes, size) != size)
            die("write", "/run/command");
    close(in);
    close(out);
    if (chroot(ROOT) || chdir("/"))
        die("enter", ROOT);
}

static int run_command(void) {
    static char *const arguments[] = {"/bin/bash", "/run/command", NULL};
    static char *const environment[] = {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp",
        "TERM=dumb", "LANG=C.UTF-8", NULL};
    pid_t child = fork();
    int status;

    if (child == 0) {
        execve(arguments[0], arguments, environment);
        die("run", arguments[0]);
    }
    /* As the first process we are the parent of every orphan. */
    for (;;) {
        pid_t pid = wait(&status);

        if (pid == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (pid < 0)
            die("wait for", "the command");
    }
}

int main(void) {
    struct termios line;
    int output;

    mkdir("/dev", 0755);
    mkdir("/proc", 0755);
    mount_or_die("devtmpfs", "/dev", "devtmpfs", 0, NULL);
    output = open(OUTPUT, O_RDWR | O_NOCTTY);
    if (output >= 0) {
        dup2(output, STDIN_FILENO);
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
    }
    /* A terminal would make two bytes of each newline. */
    if (tcgetattr(STDOUT_FILENO, &line) == 0) {
        cfmakeraw(&line);
        tcsetattr(STDOUT_FILENO, TCSANOW, &line);
    }
    load_modules();
    mount_root();
    say("guest: ready\n");
    end(run_command());
}
