# What `cmake --install` puts under the prefix. Every file finds the others relative to itself, so an
# installed tree may be moved.
#
#   include/{ucc/api,heddle}/                headers
#   lib/libheddle.so* (or libheddle.a)       the library
#   lib/pkgconfig/heddle.pc, lib/cmake/heddle/   for builds that ask for heddle
#   lib/libheddle_bootstrap.so*, lib/pkgconfig/heddle-bootstrap.pc   if it is built; CMake: heddle::bootstrap
#   lib/libheddle_malloc.so                  if it is built: for LD_PRELOAD, not to be linked with
#   lib/libheddle_shmem.so*, lib/heddle/shmem_start.o, lib/pkgconfig/heddle-shmem.pc, bin/{shmemrun,oshcc,oshc++}
#                                            if they are built; CMake: heddle::shmem. Its headers are in include/heddle/shmem:
#                                            another OpenSHMEM has some of the same names
#   lib/libheddle_emucuda.so*                if it is built; CMake: heddle::emucuda
#   lib/heddle/emucuda/libcuda.so.1          the same under the CUDA driver's name
#   lib/libheddle_cuda.so*                   what libheddle loads where there are CUDA devices; not beside a static library
#   lib/heddle/                              for builds and programs that ask for ucc: libucc.so.1, which
#                                            stands for the library, ucc.pc and the CMake package;
#                                            not beside a static library
#   lib/cmake/ucc-heddle/                    the same CMake package, where a search of the prefix finds it,
#                                            and where it is not in the way of UCC's own
#
# Components, which are packages (HeddlePackage.cmake): runtime, bootstrap, shmem, shmemrun, emucuda, tools, and dev, which is the
# rest.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)

install(DIRECTORY include/ucc include/heddle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "bootstrap.h" EXCLUDE PATTERN "processes.hpp" EXCLUDE PATTERN "shmem" EXCLUDE
        PATTERN "*.h" PATTERN "*.hpp")
install(TARGETS heddle EXPORT heddleTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

if(TARGET heddle_cuda)
    install(TARGETS heddle_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_SKIP)
endif()

if(TARGET heddle_malloc)
    install(TARGETS heddle_malloc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/heddle)
set(alias_dir ${CMAKE_INSTALL_LIBDIR}/heddle)
install(EXPORT heddleTargets NAMESPACE heddle:: DESTINATION ${package_dir})
if(TARGET heddle_bootstrap)
    install(FILES include/heddle/bootstrap.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/heddle)
    install(FILES include/heddle/ccl/processes.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/heddle/ccl)
    install(TARGETS heddle_bootstrap EXPORT heddleBootstrapTargets
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT bootstrap NAMELINK_COMPONENT dev
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT heddleBootstrapTargets NAMESPACE heddle:: DESTINATION ${package_dir})
endif()
if(TARGET heddle_shmem)
    install(DIRECTORY include/heddle/shmem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/heddle)
    install(TARGETS heddle_shmem heddle_shmem_program EXPORT heddleShmemTargets
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT shmem NAMELINK_COMPONENT dev)
    install(EXPORT heddleShmemTargets NAMESPACE heddle:: DESTINATION ${package_dir})
    install(FILES $<TARGET_OBJECTS:heddle_shmem_start> DESTINATION ${alias_dir} RENAME shmem_start.o)
endif()
if(TARGET heddle_emucuda)
    install(FILES include/heddle_emucuda.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(TARGETS heddle_emucuda EXPORT heddleEmucudaTargets
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT emucuda NAMELINK_COMPONENT dev)
    install(EXPORT heddleEmucudaTargets NAMESPACE heddle:: DESTINATION ${package_dir})
    install(TARGETS heddle_emucuda_driver
            LIBRARY DESTINATION ${alias_dir}/emucuda COMPONENT emucuda NAMELINK_SKIP)
endif()
configure_package_config_file(cmake/heddleConfig.cmake.in heddleConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(heddleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heddleConfig.cmake ${PROJECT_BINARY_DIR}/heddleConfigVersion.cmake
        DESTINATION ${package_dir})

# Way from the folder `from` up to the prefix, for ${pcfiledir}.
function(path_to_prefix from out)
    file(RELATIVE_PATH path "/prefix/${from}" "/prefix")
    string(REGEX REPLACE "/$" "" path ${path})
    set(${out} ${path} PARENT_SCOPE)
endfunction()

path_to_prefix(${CMAKE_INSTALL_LIBDIR}/pkgconfig PC_PREFIX)
if(HEDDLE_KIND STREQUAL "STATIC")
    list(JOIN HWLOC_LDFLAGS " " hwloc)
    set(PC_PRIVATE "Libs.private: ${hwloc} -pthread -lm -ldl")
endif()
configure_file(cmake/heddle.pc.in heddle.pc @ONLY)
configure_file(cmake/heddle-oneccl.pc.in heddle-oneccl.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/heddle.pc ${PROJECT_BINARY_DIR}/heddle-oneccl.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TARGET heddle_bootstrap)
    if(HEDDLE_KIND STREQUAL "STATIC")
        list(JOIN SODIUM_LDFLAGS " " sodium)
        set(PC_PRIVATE "Libs.private: ${sodium} -pthread")
    endif()
    configure_file(cmake/heddle-bootstrap.pc.in heddle-bootstrap.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/heddle-bootstrap.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
if(TARGET heddle_shmem)
    configure_file(cmake/heddle-shmem.pc.in heddle-shmem.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/heddle-shmem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    # The wrapper compilers.
    file(RELATIVE_PATH BIN_TO_LIB /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
    file(RELATIVE_PATH BIN_TO_INCLUDE /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_INCLUDEDIR})
    foreach(WRAPPER IN ITEMS oshcc oshc++)
        set(COMPILER cc)
        set(VARIABLE CC)
        set(NOT_UNIQUE "")
        if(WRAPPER STREQUAL "oshc++")
            set(COMPILER c++)
            set(VARIABLE CXX)
            string(CONCAT NOT_UNIQUE "if $compiler -fno-gnu-unique -fsyntax-only -x c++ /dev/null 2>/dev/null; then\n"
                   "    set -- -fno-gnu-unique \"$@\" # gcc's templates' variables would be one for all PEs\n"
                   "fi")
        endif()
        configure_file(cmake/oshcc.in ${WRAPPER} @ONLY)
        install(PROGRAMS ${PROJECT_BINARY_DIR}/${WRAPPER} DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT shmemrun)
    endforeach()
endif()

if(HEDDLE_KIND STREQUAL "STATIC")
    return()
endif()

# Under the name of UCC. The link named libheddle.so.N is there for programs that are linked with libheddle:
# one LD_LIBRARY_PATH entry serves both kinds.
set(UCC_VERSION 1.8.0)
path_to_prefix(${alias_dir}/pkgconfig PC_PREFIX)
configure_file(cmake/ucc.pc.in ucc.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ucc.pc DESTINATION ${alias_dir}/pkgconfig)

# Where find_package looks for ucc with CMAKE_PREFIX_PATH=<prefix>, with <prefix>/lib/heddle, and with
# ucc_DIR.
write_basic_package_version_file(ucc-config-version.cmake VERSION ${UCC_VERSION}
                                 COMPATIBILITY SameMajorVersion)
foreach(folder IN ITEMS ${CMAKE_INSTALL_LIBDIR}/cmake/ucc-heddle ${alias_dir}/cmake
                        ${alias_dir}/cmake/ucc)
    path_to_prefix(${folder} UCC_PREFIX)
    configure_file(cmake/ucc-config.cmake.in ${folder}/ucc-config.cmake @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${folder}/ucc-config.cmake
                  ${PROJECT_BINARY_DIR}/ucc-config-version.cmake DESTINATION ${folder})
endforeach()

install(TARGETS heddle_ucc LIBRARY DESTINATION ${alias_dir} COMPONENT runtime NAMELINK_COMPONENT dev)
set(soname libheddle.so.${PROJECT_VERSION_MAJOR})
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/ucc)
file(CREATE_LINK ../${soname} ${PROJECT_BINARY_DIR}/ucc/${soname} SYMBOLIC)
install(FILES ${PROJECT_BINARY_DIR}/ucc/${soname} DESTINATION ${alias_dir} COMPONENT runtime)
