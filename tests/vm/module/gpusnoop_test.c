// SPDX-License-Identifier: GPL-2.0-only
/* What the tests in guests have the kernel do: it has nvlink_strcpy, nvlink_memcpy and
 * nvlink_memset, as the NVIDIA driver has, and does what is written to /proc/gpusnoop_test, one
 * command at a time:
 *
 * - strcpy COUNT LENGTH: copies a string of LENGTH characters;
 * - memcpy COUNT BYTES, memset COUNT BYTES;
 * - read ADDRESS OFFSET SIZE COUNT: of the configuration space of 0000:00:10.0, as a driver;
 * - write ADDRESS OFFSET SIZE COUNT VALUE: and of a device that need not exist;
 * - contexts: uses up more than 2^32 contexts of fences;
 * - xid COUNT CODE, sxid COUNT CODE: reports an error of 0000:00:10.0 as the driver does: a line in
 *   the log, then a tracepoint.
 *
 * Reading it gives what the last read of a device gave: result and value. */
#include <linux/dma-fence.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#define CREATE_TRACE_POINTS
#include "driver_events.h"

#define MOST_BYTES 8192

char *nvlink_strcpy(char *to, const char *from);
void *nvlink_memcpy(void *to, const void *from, size_t size);
void *nvlink_memset(void *to, int byte, size_t size);

static char from[MOST_BYTES], to[MOST_BYTES];
static int last_result;
static u32 last_value;

noinline char *nvlink_strcpy(char *to, const char *from) {
    return strcpy(to, from);
}

noinline void *nvlink_memcpy(void *to, const void *from, size_t size) {
    return memcpy(to, from, size);
}

noinline void *nvlink_memset(void *to, int byte, size_t size) {
    return memset(to, byte, size);
}

static int access_once(struct pci_bus *bus, unsigned int devfn, int offset, int size, bool is_write,
                       u32 value) {
    u8 byte = 0;
    u16 word = 0;
    int result;

    if (is_write)
        return size == 1   ? pci_bus_write_config_byte(bus, devfn, offset, value)
               : size == 2 ? pci_bus_write_config_word(bus, devfn, offset, value)
                           : pci_bus_write_config_dword(bus, devfn, offset, value);
    if (size == 1) {
        result = pci_bus_read_config_byte(bus, devfn, offset, &byte);
        last_value = byte;
    } else if (size == 2) {
        result = pci_bus_read_config_word(bus, devfn, offset, &word);
        last_value = word;
    } else {
        result = pci_bus_read_config_dword(bus, devfn, offset, &last_value);
    }
    return result;
}

static int access_device(const char *text, bool is_write) {
    unsigned int domain, number, slot, function, offset, size, count, value = 0;
    struct pci_bus *bus;

    if (sscanf(text, "%*s %x:%x:%x.%x %i %u %u %i", &domain, &number, &slot, &function, &offset,
               &size, &count, &value) < (is_write ? 8 : 7))
        return -EINVAL;
    bus = pci_find_bus(domain, number);
    if (!bus)
        return -ENODEV;
    while (count--)
        last_result = access_once(bus, PCI_DEVFN(slot, function), offset, size, is_write, value);
    return 0;
}

static int call_helper(const char *name, unsigned int count, unsigned int size) {
    if (size >= MOST_BYTES)
        return -EINVAL;
    memset(from, 'a', size);
    from[size] = '\0';
    while (count--) {
        if (!strcmp(name, "strcpy"))
            nvlink_strcpy(to, from);
        else if (!strcmp(name, "memcpy"))
            nvlink_memcpy(to, from, size);
        else if (!strcmp(name, "memset"))
            nvlink_memset(to, 7, size);
        else
            return -EINVAL;
    }
    return 0;
}

/* More than 2^32 of those that fences are told apart by. */
static int use_up_contexts(void) {
    dma_fence_context_alloc(UINT_MAX);
    dma_fence_context_alloc(UINT_MAX);
    return 0;
}

/* The tracepoint is called by the function behind it: the branch that skips a tracepoint nobody
 * uses is made by the kernel's build. */
static int report(bool is_switch, unsigned int count, unsigned int code) {
    struct pci_dev *device = pci_get_domain_bus_and_slot(0, 0, PCI_DEVFN(0x10, 0));
    char text[96];

    if (!device)
        return -ENODEV;
    while (count--) {
        if (is_switch) {
            snprintf(text, sizeof(text), "Fatal, Link 30 LTSSM Fault Up");
            pr_info("nvidia-nvswitch0: SXid (PCI:0000:00:10.0): %05u, %s\n", code, text);
            pr_info("nvidia-nvswitch0: SXid (PCI:0000:00:10.0): %05u, Data {0x00000001}\n", code);
        } else {
            snprintf(text, sizeof(text), "pid=%d, name=%s, Ch 00000008", current->tgid,
                     current->comm);
            pr_info("NVRM: Xid (PCI:0000:00:10): %u, %s\n", code, text);
        }
        preempt_disable_notrace();
        if (is_switch)
            __traceiter_nvswitch_dev_sxid(NULL, device, code, text);
        else
            __traceiter_nvidia_dev_xid(NULL, device, code, text);
        preempt_enable_notrace();
    }
    pci_dev_put(device);
    return 0;
}

static ssize_t command(struct file *file, const char __user *user, size_t size, loff_t *at) {
    char text[128] = "", name[16];
    unsigned int count, bytes;
    int error;

    if (size >= sizeof(text) || copy_from_user(text, user, size))
        return -EINVAL;
    if (sscanf(text, "%15s", name) != 1)
        return -EINVAL;
    if (!strcmp(name, "contexts"))
        error = use_up_contexts();
    else if (!strcmp(name, "read") || !strcmp(name, "write"))
        error = access_device(text, name[0] == 'w');
    else if (sscanf(text, "%*s %u %u", &count, &bytes) != 2)
        error = -EINVAL;
    else if (!strcmp(name, "xid") || !strcmp(name, "sxid"))
        error = report(name[0] == 's', count, bytes);
    else
        error = call_helper(name, count, bytes);
    return error ? error : size;
}

static ssize_t answer(struct file *file, char __user *user, size_t size, loff_t *at) {
    char text[64];
    int length = snprintf(text, sizeof(text), "%d %u\n", last_result, last_value);

    return simple_read_from_buffer(user, size, at, text, length);
}

static const struct proc_ops operations = {.proc_write = command, .proc_read = answer};

static int __init begin(void) {
    return proc_create("gpusnoop_test", 0600, NULL, &operations) ? 0 : -ENOMEM;
}

static void __exit end(void) {
    remove_proc_entry("gpusnoop_test", NULL);
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("What the tests of gpusnoop_exporter have a kernel do");
