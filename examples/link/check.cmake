# Builds and runs main.cpp as a project of its own. WAY says how it finds tandem:
#   installed    find_package, in a prefix that this build is installed to
#   pkgconfig    pkg-config, in such a prefix
#   subproject   its sources, as FetchContent brings them
cmake_minimum_required(VERSION 3.22)

function(run)
    execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    message("${output}")
    if(NOT status EQUAL 0)
        string(JOIN " " command ${ARGV})
        message(FATAL_ERROR "${command}: ${status}")
    endif()
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})
set(project ${CMAKE_CURRENT_LIST_DIR})
set(options -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Debug)

if(WAY STREQUAL "subproject")
    string(APPEND project /subproject)
    list(APPEND options -DTANDEM_SOURCE_DIR=${TANDEM_SOURCE_DIR} -DTANDEM_CUDA=OFF -DTANDEM_OPENCL=OFF)
else()
    run(${CMAKE_COMMAND} --install ${TANDEM_BUILD_DIR} --prefix ${WORK_DIR}/prefix)
    list(APPEND options -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix)
endif()

if(WAY STREQUAL "pkgconfig")
    file(GLOB_RECURSE pc_file ${WORK_DIR}/prefix/tandem.pc)
    get_filename_component(pc_dir ${pc_file} DIRECTORY)
    set(ENV{PKG_CONFIG_PATH} ${pc_dir})
    run(pkg-config --exists --print-errors tandem)
    execute_process(COMMAND pkg-config --cflags --libs tandem OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(flags UNIX_COMMAND "${flags}")
    run(${CXX} -std=c++20 ${project}/main.cpp ${flags} -o ${WORK_DIR}/uses_tandem)
    run(${WORK_DIR}/uses_tandem)
else()
    run(${CMAKE_COMMAND} -S ${project} -B ${WORK_DIR}/build ${options})
    if(WAY STREQUAL "subproject" AND GENERATOR STREQUAL "Ninja")
        # That it configures, and that its interface is there for who links it, is the question: the same sources are built and
        # linked elsewhere, which takes minutes.
        run(${CMAKE_COMMAND} --build ${WORK_DIR}/build --target main)
        file(STRINGS ${WORK_DIR}/build/build.ninja links REGEX "^build uses_tandem: .*libtandem\\.(a|so)")
        file(STRINGS ${WORK_DIR}/build/build.ninja others REGEX "tandem_unit_tests|tandem_command|tandem_bench|example_")
        if(NOT links OR others)
            message(FATAL_ERROR "a project with tandem in it does not link it, or builds more than it: ${others}")
        endif()
    else()
        run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
        run(${WORK_DIR}/build/uses_tandem)
    endif()
endif()
