/* Classify the held-out digits with digits.axon: what examples/digits/evaluate.py does, without Python. */
#include <stdio.h>
#include <stdlib.h>

#include "axon_classify.h"

static float conv1_k[16 * 1 * 3 * 3], conv1_b[16], conv2_k[32 * 16 * 3 * 3], conv2_b[32];
static float hidden_w[128 * 64], hidden_b[64], out_w[64 * 10], out_b[10];

static void read_all(void *to, size_t bytes, FILE *file)
{
    if (fread(to, 1, bytes, file) != bytes) {
        fprintf(stderr, "digits: the file ends too early\n");
        exit(1);
    }
}

int main(int count, char **arguments)
{
    FILE *file = count == 2 ? fopen(arguments[1], "rb") : NULL;
    if (file == NULL) {
        fprintf(stderr, "usage: digits digits.bin\n");
        return 2;
    }
    read_all(conv1_k, sizeof conv1_k, file);
    read_all(conv1_b, sizeof conv1_b, file);
    read_all(conv2_k, sizeof conv2_k, file);
    read_all(conv2_b, sizeof conv2_b, file);
    read_all(hidden_w, sizeof hidden_w, file);
    read_all(hidden_b, sizeof hidden_b, file);
    read_all(out_w, sizeof out_w, file);
    read_all(out_b, sizeof out_b, file);
    int32_t images;
    read_all(&images, sizeof images, file);
    float *ink = malloc(sizeof(float) * 64 * (size_t)images);
    int32_t *labels = malloc(sizeof(int32_t) * (size_t)images);
    if (ink == NULL || labels == NULL) {
        return 1;
    }
    read_all(ink, sizeof(float) * 64 * (size_t)images, file);
    read_all(labels, sizeof(int32_t) * (size_t)images, file);
    fclose(file);

    axon_classify_p model = {
        .conv1 = {axon_f32_4_of(conv1_k, 16, 1, 3, 3), axon_f32_1_of(conv1_b, 16)},
        .conv2 = {axon_f32_4_of(conv2_k, 32, 16, 3, 3), axon_f32_1_of(conv2_b, 32)},
        .hidden = {axon_f32_2_of(hidden_w, 128, 64), axon_f32_1_of(hidden_b, 64)},
        .out = {axon_f32_2_of(out_w, 64, 10), axon_f32_1_of(out_b, 10)},
    };
    axon_f32_3 all = axon_f32_3_of(ink, images, 8, 8);
    axon_i32_1 digits;
    if (axon_classify(&model, &all, &digits) != AXON_OK) {
        fprintf(stderr, "%s\n", axon_classify_error());
        return 1;
    }
    int right = 0;
    for (int i = 0; i < images; i++) {
        right += digits.data[i] == labels[i];
    }
    printf("%d of %d held-out images are classified correctly: %.2f%%\n", right, (int)images, 100.0 * right / images);
    axon_classify_free(&digits);

    axon_f32_3 wrong = axon_f32_3_of(ink, images, 4, 16); /* what a call says that breaks the contract */
    if (axon_classify(&model, &wrong, &digits) != AXON_OK) {
        printf("%s\n", axon_classify_error());
    }
    free(ink);
    free(labels);
    return 0;
}
