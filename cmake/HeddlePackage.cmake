# Debian packages, by `cpack -G DEB` in a build folder of the preset "package" (scripts/package), whose prefix is /usr:
#
#   libheddle0              the library, the same as libucc.so.1 (in a folder of its own: it is not in the way of UCC's), what it
#                           loads where there are CUDA devices
#   libheddle-bootstrap0    libheddle_bootstrap
#   libheddle-shmem0        libheddle_shmem
#   heddle-shmem            shmemrun, oshcc, oshc++, whose names Open MPI's programs have as well
#   libheddle-emucuda0      the emulated CUDA driver
#   libheddle-dev           headers, pkg-config and CMake packages, examples
#   heddle-tools            heddle_info, heddle_perf, heddle_trace
#
# What is loaded at run time, and found missing then, is suggested: libucx0 for teams of several processes.
# libnuma1, without which memory is not placed on NUMA nodes, is recommended.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME heddle)
set(CPACK_PACKAGE_CONTACT "Heddle maintainers <maintainers@heddle.invalid>")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# The packages' own libraries need each other, and are not installed yet.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR} ${PROJECT_BINARY_DIR}/ucc)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

# Documents that every package of Debian has.
set(package_docs ${PROJECT_BINARY_DIR}/package-docs)
file(STRINGS LICENSE license_lines)
file(READ LICENSE license)
string(REGEX REPLACE "\n\n" "\n.\n" license "${license}")
string(REGEX REPLACE "\n([^\n])" "\n \\1" license "${license}")
file(WRITE ${package_docs}/copyright
     "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
     "Upstream-Name: heddle\n\nFiles: *\nCopyright: Heddle maintainers\nLicense: BSD-3-clause\n ${license}")
file(WRITE ${package_docs}/changelog
     "heddle (${PROJECT_VERSION}) unstable; urgency=medium\n\n  * See CHANGELOG.md of the source.\n\n"
     " -- ${CPACK_PACKAGE_CONTACT}  Thu, 01 Jan 2026 00:00:00 +0000\n")
execute_process(COMMAND gzip -9nf ${package_docs}/changelog)

# heddle_package(COMPONENT NAME SECTION SUMMARY TEXT DEPENDS)
function(heddle_package component name section summary text depends)
    string(TOUPPER ${component} id)
    set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
    set(CPACK_DEBIAN_${id}_PACKAGE_NAME ${name} PARENT_SCOPE)
    set(CPACK_DEBIAN_${id}_PACKAGE_SECTION ${section} PARENT_SCOPE)
    set(CPACK_DEBIAN_${id}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
    set(CPACK_DEBIAN_${id}_DESCRIPTION "${summary}\n${text}" PARENT_SCOPE)
    install(FILES ${package_docs}/copyright ${package_docs}/changelog.gz
            DESTINATION share/doc/${name} COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

# heddle_library_package(COMPONENT NAME LIBRARIES SUMMARY TEXT DEPENDS): as above; ldconfig is run by a trigger, and what programs that are linked with
# the library need is said.
function(heddle_library_package component name libraries summary text depends)
    heddle_package(${component} ${name} libs "${summary}" "${text}" "${depends}")
    string(TOUPPER ${component} id)
    set(control ${package_docs}/${component})
    file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
    file(WRITE ${control}/shlibs "")
    foreach(one IN LISTS libraries)
        file(APPEND ${control}/shlibs "${one} ${PROJECT_VERSION_MAJOR} ${name} (= ${PROJECT_VERSION})\n")
    endforeach()
    file(CHMOD ${control}/triggers ${control}/shlibs PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    set(CPACK_DEBIAN_${id}_PACKAGE_CONTROL_EXTRA ${control}/triggers ${control}/shlibs PARENT_SCOPE)
    foreach(field IN ITEMS NAME SECTION DEPENDS)
        set(CPACK_DEBIAN_${id}_PACKAGE_${field} "${CPACK_DEBIAN_${id}_PACKAGE_${field}}" PARENT_SCOPE)
    endforeach()
    set(CPACK_DEBIAN_${id}_DESCRIPTION "${CPACK_DEBIAN_${id}_DESCRIPTION}" PARENT_SCOPE)
    set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} PARENT_SCOPE)
endfunction()

set(same "(= ${PROJECT_VERSION})")
set(n ${PROJECT_VERSION_MAJOR})
set(about "Collective operations (barrier, allreduce, alltoallv and so on) among threads\n or tasks, with the interface of UCC 1.x and calls of its own.")
set(own "libheddle${n} ${same}")
heddle_library_package(runtime libheddle${n} "libheddle;libheddle_cuda" "collective operations among threads, shared library" "${about}" "")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "libucx0")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "libnuma1")
if(TARGET heddle_bootstrap)
    heddle_library_package(bootstrap libheddle-bootstrap${n} libheddle_bootstrap
                           "process-level exchange for collectives among threads"
                           "How processes that form a team find each other where they have no\n exchange of their own." "")
    list(APPEND own "libheddle-bootstrap${n} ${same}")
endif()
if(TARGET heddle_shmem)
    set(about_shmem "Each PE is a thread, of one process or of several, with a copy of the program. Collectives are those of libheddle.")
    heddle_library_package(shmem libheddle-shmem${n} libheddle_shmem "OpenSHMEM among threads, shared library"
                           "${about_shmem}" "libheddle${n} ${same}")
    list(APPEND own "libheddle-shmem${n} ${same}")
    heddle_package(shmemrun heddle-shmem utils "OpenSHMEM among threads, launcher and wrapper compilers"
                   "${about_shmem}" "libheddle-shmem${n} ${same}")
    set(CPACK_DEBIAN_SHMEMRUN_PACKAGE_RECOMMENDS "libheddle-dev") # for the wrapper compilers
    set(CPACK_DEBIAN_SHMEMRUN_PACKAGE_CONFLICTS "openmpi-bin") # the same names
endif()
if(TARGET heddle_emucuda)
    heddle_library_package(emucuda libheddle-emucuda${n} libheddle_emucuda "CUDA driver interface emulated on the host"
                           "For tests of host code without a GPU: a seeded scheduler, protected memory\n and a race detector." "")
    list(APPEND own "libheddle-emucuda${n} ${same}")
endif()
list(JOIN own ", " own)
heddle_package(dev libheddle-dev libdevel "collective operations among threads, development files" "${about}" "${own}")
set(CPACK_DEBIAN_DEV_PACKAGE_CONFLICTS "libucc-dev") # the same headers
if(HEDDLE_BUILD_TOOLS)
    heddle_package(tools heddle-tools utils "collective operations among threads, tools"
                   "Programs that show, measure and trace collectives among threads." "libheddle${n} ${same}")
endif()
install(DIRECTORY examples/ DESTINATION share/doc/libheddle-dev/examples COMPONENT dev EXCLUDE_FROM_ALL)
include(CPack)
