# tandem_embed(TARGET SYMBOL FILE): puts FILE's bytes into TARGET as `SYMBOL_begin` .. `SYMBOL_end`, followed by a zero byte.
# The assembler includes the file: no generated arrays, and the cost is the same at any size.
function(tandem_embed target symbol file)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded_${symbol}.cpp)
    file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [=[
__asm__(
    ".section .rodata\n"
    ".balign 16\n"
    ".globl @symbol@_begin\n.hidden @symbol@_begin\n"
    ".globl @symbol@_end\n.hidden @symbol@_end\n"
    "@symbol@_begin:\n"
    ".incbin \"@file@\"\n"
    "@symbol@_end:\n"
    ".byte 0\n"
    ".text\n");
]=])
    set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES OBJECT_DEPENDS ${file} SKIP_LINTING ON)
    target_sources(${target} PRIVATE ${source})
endfunction()
