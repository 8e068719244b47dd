# What `cmake --install` puts in place: library, headers, the command, and what CMake and pkg-config need to find them.
include(CMakePackageConfigHelpers)

install(TARGETS tandem EXPORT tandemTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Whoever links the archive links what it uses; the shared library brings that along.
set(libraries_of_archive "")
if(NOT BUILD_SHARED_LIBS)
    set(libraries_of_archive "-lz ")
    install(FILES ${CMAKE_CURRENT_LIST_DIR}/zlib.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tandem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.hpp)
if(TARGET tandem_command)
    install(TARGETS tandem_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    if(BUILD_SHARED_LIBS)
        file(RELATIVE_PATH library_from_command ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
        set_target_properties(tandem_command PROPERTIES INSTALL_RPATH $ORIGIN/${library_from_command})
    endif()
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tandemConfig.cmake.in ${PROJECT_BINARY_DIR}/tandemConfig.cmake
    INSTALL_DESTINATION ${package_dir})
# Before 1.0 each minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT tandemTargets NAMESPACE tandem:: DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/tandemConfig.cmake ${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake DESTINATION ${package_dir})

# The prefix is found from where the file lies, so that an installed tree may be moved.
file(RELATIVE_PATH prefix_from_pkgconfig ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/tandem.pc.in ${PROJECT_BINARY_DIR}/tandem.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tandem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
