// SPDX-License-Identifier: GPL-2.0-only
/* What the kernel's build adds to a module (scripts/mod/modpost.c), which cannot run here: its
 * tools are of the kernel's Debian release. Without the checksums of symbols, so it is loaded by
 * force. */
#define INCLUDE_VERMAGIC
#include <linux/module.h>
#include <linux/vermagic.h>

MODULE_INFO(vermagic, VERMAGIC_STRING);
MODULE_INFO(name, KBUILD_MODNAME);

__visible struct module __this_module __section(".gnu.linkonce.this_module") = {
    .name = KBUILD_MODNAME,
    .init = init_module,
    .exit = cleanup_module,
    .arch = MODULE_ARCH_INIT,
};
