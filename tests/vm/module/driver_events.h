/* SPDX-License-Identifier: GPL-2.0-only */
/* The tracepoints of the NVIDIA driver since 575, with the arguments that they have there. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM gpusnoop_test

#if !defined(GPUSNOOP_DRIVER_EVENTS_H) || defined(TRACE_HEADER_MULTI_READ)
#define GPUSNOOP_DRIVER_EVENTS_H

#include <linux/pci.h>
#include <linux/tracepoint.h>

DECLARE_EVENT_CLASS(driver_report,
                    TP_PROTO(const struct pci_dev *pdev, uint32_t error_code, const char *msg),
                    TP_ARGS(pdev, error_code, msg), TP_STRUCT__entry(__field(u32, error_code)),
                    TP_fast_assign(__entry->error_code = error_code;),
                    TP_printk("%u", __entry->error_code));

DEFINE_EVENT(driver_report, nvidia_dev_xid,
             TP_PROTO(const struct pci_dev *pdev, uint32_t error_code, const char *msg),
             TP_ARGS(pdev, error_code, msg));

DEFINE_EVENT(driver_report, nvswitch_dev_sxid,
             TP_PROTO(const struct pci_dev *pdev, uint32_t error_code, const char *msg),
             TP_ARGS(pdev, error_code, msg));

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE driver_events
#include <trace/define_trace.h>
