shared |User city=Kiel hour:9 |Day:0.5 monday
0:-1.5:0.25 'coffee |Drink hot price:2.5
'tea |Drink:2 cold price:2 | plain:3
'water |

|x a:1 b:-2
1:0.0:0.5 |x a:2 c:3

shared | s_1 s_2:0
| a_1
| a_2

0:2e-1:1 only| a b c
