# What `cmake --install` puts under the prefix. Every file finds the others relative to itself, so an
# installed tree may be moved.
#
#   include/{ucc/api,heddle}/                headers
#   lib/libheddle.so*                        the library
#   lib/pkgconfig/heddle.pc, lib/cmake/heddle/   for builds that ask for heddle
#   lib/heddle/                              for builds and programs that ask for ucc: libucc.so.1 and
#                                            libucc.so are this library under another name

install(DIRECTORY include/ucc include/heddle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(TARGETS heddle EXPORT heddleTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/heddle)
set(alias_dir ${CMAKE_INSTALL_LIBDIR}/heddle)
install(EXPORT heddleTargets NAMESPACE heddle:: DESTINATION ${package_dir})
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
configure_file(cmake/heddle.pc.in heddle.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/heddle.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Under the name of UCC. The link named libheddle.so.N is there for programs that were linked through
# libucc.so, which record the library's own name: one LD_LIBRARY_PATH entry serves both kinds.
set(UCC_VERSION 1.8.0)
path_to_prefix(${alias_dir}/pkgconfig PC_PREFIX)
configure_file(cmake/ucc.pc.in ucc.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ucc.pc DESTINATION ${alias_dir}/pkgconfig)

path_to_prefix(${alias_dir}/cmake/ucc UCC_PREFIX)
configure_file(cmake/ucc-config.cmake.in ucc-config.cmake @ONLY)
write_basic_package_version_file(ucc-config-version.cmake VERSION ${UCC_VERSION}
                                 COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ucc-config.cmake ${PROJECT_BINARY_DIR}/ucc-config-version.cmake
        DESTINATION ${alias_dir}/cmake/ucc)

set(soname libheddle.so.${PROJECT_VERSION_MAJOR})
foreach(link IN ITEMS libucc.so libucc.so.1 ${soname})
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/alias)
    file(CREATE_LINK ../${soname} ${PROJECT_BINARY_DIR}/alias/${link} SYMBOLIC)
    install(FILES ${PROJECT_BINARY_DIR}/alias/${link} DESTINATION ${alias_dir})
endforeach()
