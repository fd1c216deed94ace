# The system calls of x86_64 and arm64, from the kernel's headers: `SYSCALL(name, x86_64, arm64)` in generated/syscall_table.inc,
# included with SYSCALL defined; NONE where a machine has no such call. Debian's linux-libc-dev has the headers of all machines.
set(uapi /usr/lib/linux/uapi)
if(NOT EXISTS ${uapi}/x86/asm/unistd_64.h OR NOT EXISTS ${uapi}/arm64/asm/unistd_64.h)
    message(FATAL_ERROR "No kernel headers of both x86_64 and arm64 in ${uapi} (linux-libc-dev 6.12 or later): run scripts/setup.sh")
endif()

# Calls that are newer than the headers of Linux 6.12, which Debian 12 and 13 have: those of Linux 6.13 to 7.2.
# From the kernel's scripts/syscall.tbl, and arch/x86/entry/syscalls/syscall_64.tbl.
set(newer_calls setxattrat 463 getxattrat 464 listxattrat 465 removexattrat 466 open_tree_attr 467
    file_getattr 468 file_setattr 469 listns 470 rseq_slice_yield 471)
set(newer_calls_x86 ${newer_calls} uprobe 336)
set(newer_calls_arm64 ${newer_calls})

set(names)
foreach(machine x86 arm64)
    set(header ${uapi}/${machine}/asm/unistd_64.h)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
    file(STRINGS ${header} lines REGEX "^#define __NR_[a-z0-9_]+[ \t]+[0-9]+$")
    foreach(line ${lines})
        string(REGEX MATCH "__NR_([a-z0-9_]+)[ \t]+([0-9]+)" found "${line}")
        set(${machine}_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
        list(APPEND names ${CMAKE_MATCH_1})
    endforeach()
    set(calls ${newer_calls_${machine}})
    while(calls)
        list(POP_FRONT calls name number)
        set(${machine}_${name} ${number})
        list(APPEND names ${name})
    endwhile()
endforeach()
list(REMOVE_DUPLICATES names)

set(table)
foreach(name ${names})
    foreach(machine x86 arm64)
        if(NOT DEFINED ${machine}_${name})
            set(${machine}_${name} NONE)
        endif()
    endforeach()
    string(APPEND table "SYSCALL(${name}, ${x86_${name}}, ${arm64_${name}})\n")
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/syscall_table.inc CONTENT "${table}" @ONLY)
