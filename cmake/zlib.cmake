# zlib, for .npz archives: the static one where there is such, since what is built then runs on machines that have none. A shared
# library takes the shared one, which is position-independent for certain. Also used by the installed package.
if(NOT TARGET tandem_zlib)
    set(tandem_zlib_names libz.a z)
    if(BUILD_SHARED_LIBS)
        set(tandem_zlib_names z)
    endif()
    find_library(TANDEM_ZLIB_LIBRARY NAMES ${tandem_zlib_names})
    find_path(TANDEM_ZLIB_INCLUDE_DIR zlib.h)
    mark_as_advanced(TANDEM_ZLIB_LIBRARY TANDEM_ZLIB_INCLUDE_DIR)
    if(NOT TANDEM_ZLIB_LIBRARY OR NOT TANDEM_ZLIB_INCLUDE_DIR)
        message(FATAL_ERROR "tandem needs zlib and its header (Debian: zlib1g-dev)")
    endif()
    add_library(tandem_zlib UNKNOWN IMPORTED GLOBAL)
    set_target_properties(tandem_zlib PROPERTIES IMPORTED_LOCATION ${TANDEM_ZLIB_LIBRARY}
        INTERFACE_INCLUDE_DIRECTORIES ${TANDEM_ZLIB_INCLUDE_DIR})
endif()
